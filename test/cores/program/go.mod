module example.org/goprof/cores

go 1.19

require example.org/goprof/targets v0.0.0

replace example.org/goprof/targets => ../../targets
