module example.org/goprof/bench/peers

go 1.21

require (
	example.org/goprof/bench v0.0.0
	github.com/felixge/fgprof v0.9.5
	github.com/getsentry/sentry-go v0.30.0
	github.com/google/pprof v0.0.0-20240227163752-401108e1b7e7
)

require (
	golang.org/x/sys v0.18.0 // indirect
	golang.org/x/text v0.14.0 // indirect
)

replace example.org/goprof/bench => ../
