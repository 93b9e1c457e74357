module example.org/goprof/bench

go 1.21
