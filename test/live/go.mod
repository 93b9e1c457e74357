module example.org/goprof/live

go 1.21
