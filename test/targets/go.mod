module example.org/goprof/targets

go 1.19
