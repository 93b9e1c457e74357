// Package live runs goprof on programs with a known right answer (test/targets) and compares.
//
//	GOPROF          the program under test          (default: ../../build/goprof)
//	GOPROF_TARGETS  what scripts/build-targets made (default: ~/.cache/goprof/targets)
//
// Profiles are opened by the pprof of a Go toolchain (scripts/go-toolchains). With -short what needs minutes is smaller or left out.
//
// Tests that measure shares of CPU time run alone; those that call t.Parallel do not mind the others. Every profile
// that any test records goes through recording.check: its envelopes must be acceptable to Sentry and its figures
// must agree with each other.
package live

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Both versions in four link forms: what "all builds" means.
var (
	versions  = []string{"1.19", "1.26"}
	forms     = []string{"plain", "sw", "pie-sw", "cgo-sw"}
	allBuilds = func() (v []string) {
		for _, version := range versions {
			for _, form := range forms {
				v = append(v, version+"-"+form)
			}
		}
		return
	}()
)

// One build of each version, for tests where the link form makes no difference.
var eachVersion = []string{"1.19-plain", "1.26-sw"}

// moreBuilds are those of other versions that have been built, too (FULL=1 scripts/check): not those of first and last
// releases, which TestMatrix makes when it needs them, and which may be of targets that had less in them.
func moreBuilds() (v []string) {
	ofVersion := regexp.MustCompile(`^1\.[0-9]+-plain$`)
	names, _ := filepath.Glob(filepath.Join(targetsDir, "targets-1.*-plain"))
	for _, name := range names {
		build := strings.TrimPrefix(filepath.Base(name), "targets-")
		known := !ofVersion.MatchString(build)
		for _, b := range allBuilds {
			known = known || b == build
		}
		if !known {
			v = append(v, build)
		}
	}
	return
}

// mark is in the environment of every process that the tests start, and so of their children: what is left behind
// is found by it.
var mark = "GOPROF_LIVE_RUN=" + runName()

func runName() string {
	if name := os.Getenv("GOPROF_LIVE_RUN"); name != "" {
		return name
	}
	return fmt.Sprint(os.Getpid())
}

var goprofPath, targetsDir, rootDir string

func setting(name, otherwise string) string {
	value := os.Getenv(name)
	if value == "" {
		value = otherwise
	}
	path, err := filepath.Abs(value)
	if err != nil {
		panic(err)
	}
	return path
}

func cacheDir() string {
	if dir := os.Getenv("GOPROF_CACHE"); dir != "" {
		return dir
	}
	base, err := os.UserCacheDir()
	if err != nil {
		panic(err)
	}
	return filepath.Join(base, "goprof")
}

func TestMain(m *testing.M) {
	if name := os.Getenv("GOPROF_LIVE_CHILD"); name != "" {
		os.Exit(children[name]())
	}
	rootDir = setting("GOPROF_ROOT", "../..")
	goprofPath = setting("GOPROF", filepath.Join(rootDir, "build", "goprof"))
	targetsDir = setting("GOPROF_TARGETS", filepath.Join(cacheDir(), "targets"))
	for _, path := range append([]string{goprofPath}, paths(allBuilds)...) {
		if _, err := os.Stat(path); err != nil {
			fmt.Fprintln(os.Stderr, "live tests:", err, "(scripts/check makes what they need)")
			os.Exit(2)
		}
	}
	// What is open here by chance is not for the children: tests compare their descriptors.
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if fd, _ := strconv.Atoi(e.Name()); fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	// Under nohup or behind an &: the children of these tests are not to inherit that. Goprof and its targets respect it.
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	for _, name := range []string{"SENTRY_DSN", "SENTRY_RELEASE", "SENTRY_ENVIRONMENT"} {
		os.Unsetenv(name) // nothing may be sent, and nothing of this machine may change a result
	}
	forgetBuilds()
	os.Exit(finish(m.Run()))
}

// leftovers are folders that outlive a test; they go with the run.
var leftovers []string

// finish ends the run: whatever the tests left running is a failure of its own.
func finish(code int) int {
	for _, dir := range leftovers {
		os.RemoveAll(dir)
	}
	for _, pid := range marked() {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		fmt.Printf("process %d is left behind: %s\n--- FAIL: LeftBehind (0.00s)\n", pid, bytes.ReplaceAll(name, []byte{0}, []byte{' '}))
		syscall.Kill(pid, syscall.SIGKILL)
		code = 1
	}
	return code
}

// marked lists the processes of this run that still live.
func marked() (pids []int) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range environs {
		pid, _ := strconv.Atoi(strings.Split(name, "/")[2])
		data, _ := os.ReadFile(name)
		if pid != os.Getpid() && bytes.Contains(data, []byte(mark+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return
}

// inTurn is all of the builds; with -short the i-th one, so that tests of a kind share them.
func inTurn(i int, builds ...string) []string {
	if testing.Short() {
		i %= len(builds)
		return builds[i : i+1]
	}
	return builds
}

// lasting is how long a measurement takes, in a full run and in a short one.
func lasting(full, short time.Duration) time.Duration {
	if testing.Short() {
		return short
	}
	return full
}

// target is the path of a build of the targets.
func target(build string) string { return filepath.Join(targetsDir, "targets-"+build) }

func paths(builds []string) (v []string) {
	for _, build := range builds {
		v = append(v, target(build))
	}
	return
}

// each runs f as a subtest for each of the builds.
func each(t *testing.T, builds []string, parallel bool, f func(t *testing.T, build string)) {
	for _, build := range builds {
		build := build
		t.Run(build, func(t *testing.T) {
			if parallel {
				t.Parallel()
			}
			f(t, build)
		})
	}
}
