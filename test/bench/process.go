package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// processCPU is the CPU time of a process, from its own clock: exact, unlike /proc/PID/stat.
func processCPU(pid int) (time.Duration, error) {
	var ts syscall.Timespec
	clock := uintptr(^pid<<3 | 2) // clock_getcpuclockid(3), which is arithmetic only
	if _, _, e := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0); e != 0 {
		return 0, fmt.Errorf("process %d has ended: %w", pid, e)
	}
	return time.Duration(ts.Nano()), nil
}

func monotonic() int64 {
	const clockMonotonic = 1
	var ts syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

func readFile(path string) string {
	data, _ := os.ReadFile(path)
	return strings.TrimSpace(string(data))
}

// statusField is the text behind a name of a status file of /proc; empty when there is none.
func statusField(path, name string) string {
	_, rest, _ := strings.Cut("\n"+readFile(path), "\n"+name+":")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

// statusKB is a figure of /proc/PID/status in KB; 0 when there is none.
func statusKB(pid int, name string) float64 {
	f := strings.Fields(statusField(fmt.Sprintf("/proc/%d/status", pid), name) + " ")
	if len(f) == 0 {
		return 0
	}
	kb, _ := strconv.ParseFloat(f[0], 64)
	return kb
}

// isStopped: by job control, as after Ctrl-Z.
func isStopped(pid int) bool {
	return strings.HasPrefix(statusField(fmt.Sprintf("/proc/%d/status", pid), "State"), "T")
}

// isTraced: somebody holds a thread of it at this moment, or could.
func isTraced(pid int) bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, path := range tasks {
		if tracer := statusField(path, "TracerPid"); tracer != "" && tracer != "0" {
			return true
		}
	}
	return false
}

// machineTimes is what all cores together did since boot: at work, and taken away by the host of a virtual machine.
func machineTimes() (busy, stolen time.Duration) {
	const hz = 100 // USER_HZ, the same on every Linux that Go knows
	f := strings.Fields(strings.SplitN(readFile("/proc/stat"), "\n", 2)[0])
	for i, word := range f {
		n, _ := strconv.ParseInt(word, 10, 64)
		switch i { // cpu user nice system idle iowait irq softirq steal
		case 1, 2, 3, 6, 7:
			busy += time.Duration(n) * time.Second / hz
		case 8:
			stolen = time.Duration(n) * time.Second / hz
		}
	}
	return
}

// childrenCPU is that of all children that have ended and were waited for, and of us.
func childrenCPU() time.Duration {
	var sum int64
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		syscall.Getrusage(who, &r)
		sum += r.Utime.Nano() + r.Stime.Nano()
	}
	return time.Duration(sum)
}

func cpuModel() string {
	_, rest, _ := strings.Cut(readFile("/proc/cpuinfo"), "model name")
	name, _, _ := strings.Cut(rest, "\n")
	return strings.Trim(name, "\t: ")
}

func memoryKB(name string) float64 {
	kb, _ := strconv.ParseFloat(strings.TrimSuffix(statusField("/proc/meminfo", name), " kB"), 64)
	return kb
}

// memoryAvailable is a share of all; 1 where it is not told.
func memoryAvailable() float64 {
	all, available := memoryKB("MemTotal"), memoryKB("MemAvailable")
	if all == 0 || available == 0 {
		return 1
	}
	return available / all
}

func machineName() string {
	gib := memoryKB("MemTotal")
	return fmt.Sprintf("%d cores, %s, %.0f GiB, Linux %s, huge pages %s", runtime.NumCPU(), cpuModel(), gib/(1<<20),
		readFile("/proc/sys/kernel/osrelease"), hugePages())
}

// hugePages is who gets them without asking: always, madvise (nobody), never. A Go heap does not ask.
func hugePages() string {
	_, rest, _ := strings.Cut(readFile("/sys/kernel/mm/transparent_hugepage/enabled"), "[")
	word, _, found := strings.Cut(rest, "]")
	if !found {
		return "unknown"
	}
	return word
}
