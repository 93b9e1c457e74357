// goprof info against go tool nm.
package live

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	infoAddress = regexp.MustCompile(`(?m)^ +(runtime\.\w+) +(0x[0-9a-f]+|not found)`)
	nmSymbol    = regexp.MustCompile(`(?m)^ *([0-9a-f]+) \w (runtime\.\w+)$`)
)

// addresses gives what goprof info finds in a file or a process.
func addresses(t testing.TB, of string) map[string]string {
	t.Helper()
	p := start(t, nil, goprofPath, "info", of)
	if status := p.wait(20 * time.Second); status != 0 {
		t.Fatalf("goprof info %s: status %d\n%s", of, status, tail(p.err()))
	}
	found := map[string]string{}
	for _, m := range infoAddress.FindAllStringSubmatch(p.out(), -1) {
		found[m[1]] = m[2]
	}
	return found
}

// Shows: what the rules find in a stripped binary is what the symbol table of its twin says.
func TestInfoAddresses(t *testing.T) {
	for _, build := range allBuilds {
		if strings.HasSuffix(build, "-plain") {
			continue
		}
		build := build
		t.Run(build, func(t *testing.T) {
			t.Parallel()
			whole, bare := twins(t, build)
			symbols := map[string]string{}
			for _, m := range nmSymbol.FindAllStringSubmatch(goTool(t, "nm", whole), -1) {
				symbols[m[2]] = "0x" + m[1]
			}
			stripped, full := addresses(t, bare), addresses(t, whole)
			moved := map[int64]bool{}
			for _, name := range []string{"allgs", "allglen", "allgptr", "allm", "allp", "sched", "gomaxprocs", "waitReasonStrings"} {
				name = "runtime." + name
				want := symbols[name]
				if want == "" {
					t.Errorf("%s: no such symbol in %s", name, whole)
				}
				if full[name] != want {
					t.Errorf("%s: %q in the build with symbols, %q by its symbol", name, full[name], want)
				}
				at, found := strconv.ParseInt(stripped[name], 0, 64)
				there, _ := strconv.ParseInt(want, 0, 64)
				if found != nil {
					t.Errorf("%s: %q in the stripped build, %q by its symbol", name, stripped[name], want)
				}
				moved[at-there] = true
			}
			// Of older versions all data may begin a page further on in one of the two.
			for by := range moved {
				if len(moved) > 1 || by%4096 != 0 || by != 0 && minorOf(build) > 19 {
					t.Errorf("moved by %v: %v in the stripped build, %v by symbols", moved, stripped, symbols)
				}
			}
		})
	}
}

// Shows: info of a process gives the addresses of the file, moved by one and the same distance.
func TestInfoProcess(t *testing.T) {
	each(t, allBuilds, true, func(t *testing.T, build string) {
		p := startTarget(t, build, "labels", "-dur", "1m")
		file, process := addresses(t, target(build)), addresses(t, fmt.Sprint(p.pid))
		p.quit()
		bias, n := int64(-1), 0
		for name, at := range file {
			var a, b int64
			fmt.Sscanf(at, "0x%x", &a)
			fmt.Sscanf(process[name], "0x%x", &b)
			if bias < 0 {
				bias = b - a
			}
			if b-a != bias || a == 0 {
				t.Errorf("%s: %s in the file, %s in the process, moved by %#x", name, at, process[name], bias)
			}
			n++
		}
		if pie := strings.Contains(build, "pie"); n < 8 || (bias != 0) != pie {
			t.Errorf("%d addresses, moved by %#x", n, bias)
		}
	})
}
