// targets: programs with a known right answer, to test a profiler with. One binary, one subcommand per target.
//
//	targets NAME [flags]     targets NAME -h shows them
//
// Every target says on stdout in lines that start with TRUTH what a profiler should see, and on stderr READY when it
// can be looked at; package oracle tells how to get its own view. The doc comment of each package states the right
// answer. Function names carry the package: example.org/goprof/targets/NAME.function.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"sort"

	"example.org/goprof/targets/alternate"
	"example.org/goprof/targets/badframes"
	"example.org/goprof/targets/burst"
	"example.org/goprof/targets/busy"
	"example.org/goprof/targets/churn"
	"example.org/goprof/targets/crew"
	"example.org/goprof/targets/deep"
	"example.org/goprof/targets/echo"
	"example.org/goprof/targets/echoio"
	"example.org/goprof/targets/execself"
	"example.org/goprof/targets/forks"
	"example.org/goprof/targets/gcheavy"
	"example.org/goprof/targets/goexit"
	"example.org/goprof/targets/growstack"
	"example.org/goprof/targets/labels"
	"example.org/goprof/targets/linedir"
	"example.org/goprof/targets/lockos"
	"example.org/goprof/targets/maindead"
	"example.org/goprof/targets/many"
	"example.org/goprof/targets/names"
	"example.org/goprof/targets/oracle"
	"example.org/goprof/targets/readloop"
	"example.org/goprof/targets/requests"
	"example.org/goprof/targets/server"
	"example.org/goprof/targets/short"
	"example.org/goprof/targets/signals"
	"example.org/goprof/targets/sigpanic"
	"example.org/goprof/targets/status"
	"example.org/goprof/targets/storm"
	"example.org/goprof/targets/switches"
	"example.org/goprof/targets/threads"
	"example.org/goprof/targets/tracefn"
	"example.org/goprof/targets/vdso"
	"example.org/goprof/targets/waitreasons"
)

// still are the targets that park goroutines and do nothing else, for matrix to have them all in one process.
var still = []func(){names.Start, waitreasons.Start, labels.Start, badframes.Start}

// targets by name. Files of their own add those that need cgo, amd64 or a newer Go.
var targets = map[string]func(){
	"alternate":   alternate.Main,
	"badframes":   badframes.Main,
	"burst":       burst.Main,
	"busy":        busy.Main,
	"churn":       churn.Main,
	"crew":        crew.Main,
	"deep":        deep.Main,
	"echo":        echo.Main,
	"echoio":      echoio.Main,
	"execself":    execself.Main,
	"exitcode":    status.ExitCode,
	"forks":       forks.Main,
	"gcheavy":     gcheavy.Main,
	"goexit":      goexit.Main,
	"growstack":   growstack.Main,
	"killself":    status.KillSelf,
	"labels":      labels.Main,
	"linedir":     linedir.Main,
	"lockos":      lockos.Main,
	"maindead":    maindead.Main,
	"many":        many.Main,
	"matrix":      func() { oracle.Main(still...) },
	"names":       names.Main,
	"readloop":    readloop.Main,
	"requests":    requests.Main,
	"server":      server.Main,
	"short":       short.Main,
	"signals":     signals.Main,
	"sigpanic":    sigpanic.Main,
	"storm":       storm.Main,
	"switches":    switches.Main,
	"threads":     threads.Main,
	"tracefn":     tracefn.Main,
	"vdso":        vdso.Main,
	"waitreasons": waitreasons.Main,
}

func usage() {
	names := make([]string, 0, len(targets))
	for name := range targets {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Fprintln(os.Stderr, "usage: targets NAME [flags]; names:", names)
	os.Exit(2)
}

// Some targets are about the first thread of the process: the main goroutine must be tied to it before main starts.
func init() {
	if len(os.Args) > 1 && (os.Args[1] == "lockos" || os.Args[1] == "maindead") {
		runtime.LockOSThread()
	}
}

func main() {
	if len(os.Args) < 2 || targets[os.Args[1]] == nil {
		usage()
	}
	name := os.Args[1]
	os.Args = os.Args[1:]
	flag.CommandLine = flag.NewFlagSet(name, flag.ExitOnError)
	targets[name]()
}
