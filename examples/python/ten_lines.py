"""From a model to a trained adapter: python ten_lines.py MODEL"""
import sys

import clora

model = clora.load(sys.argv[1])
stories = ["Once upon a time, a fox lived in a red house.", "The fox had a red hat and a red car."]
trainer = clora.Trainer(model, clora.LoraConfig(r=8), stories, max_steps=20, learning_rate=5e-3)
trainer.train()
trainer.save("fox-adapter")
print(model.generate("Once upon a time", adapter=trainer.adapter, max_new_tokens=20))
