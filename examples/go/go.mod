module example.com/generate

go 1.19
