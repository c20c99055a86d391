// generate MODEL PROMPT [ADAPTER_FOLDER]: generates text with clora's C interface.
package main

import (
	"fmt"
	"os"

	"example.com/generate/clora"
)

func generate(model, prompt, adapter string) error {
	m, err := clora.Load(model)
	if err != nil {
		return err
	}
	defer m.Close()
	session, err := m.NewSession()
	if err != nil {
		return err
	}
	defer session.Close()
	if adapter != "" {
		if err := session.Attach(adapter); err != nil {
			return err
		}
	}
	_, err = session.Generate(prompt, 32, func(text string) bool {
		_, err := fmt.Print(text)
		return err == nil // without a reader, the reply ends
	})
	fmt.Println()
	return err
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: generate MODEL PROMPT [ADAPTER_FOLDER]")
		os.Exit(2)
	}
	adapter := ""
	if len(os.Args) > 3 {
		adapter = os.Args[3]
	}
	if err := generate(os.Args[1], os.Args[2], adapter); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
