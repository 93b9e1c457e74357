// Command peers is the program that the bench looks at, with the profilers that others have written as contenders. It is a
// module of its own: who cannot reach a module proxy builds ../target, which has stand-ins.
package main

import "example.org/goprof/bench/crowd"

func main() {
	crowd.Register("fgprof v0.9.5", &fgprofContender{})
	crowd.RegisterEndless("sentry-go v0.30.0", &sentryContender{})
	crowd.Main()
}
