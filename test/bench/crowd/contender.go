package crowd

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/pprof"
	"sync/atomic"
	"time"
)

// Contender is a profiler that works within the program.
type Contender interface {
	// Start begins to sample. What must be there before the first sample, is there when it returns.
	Start(goroutines int) error
	// Samples so far; false: only Stop tells.
	Samples() (uint64, bool)
	// Stop ends it: how many samples it took since Start, and what else is to be said about them.
	Stop() (samples uint64, note string, err error)
}

// bounded is a contender that can end by itself. Some leave a program so little that it does not even come to read that
// they should.
type bounded interface {
	// EndAfter makes it end when d is over, with a call of ended in its own goroutine.
	EndAfter(d time.Duration, ended func())
}

// end is when a contender ends by itself.
type end struct {
	at    time.Time
	ended func()
}

var contenders = map[string]Contender{
	"runtime.Stack":    &ticking{hz: 101, prepare: growStack, sample: takeStack},
	"GoroutineProfile": &ticking{hz: 99, prepare: growProfile, sample: takeProfile},
	"pprof CPU":        &pprofCPU{},
}

// order in which they are measured. What leaves most behind in the heap comes last.
var order = []string{"pprof CPU", "GoroutineProfile", "runtime.Stack"}

// endless are those that go on for ever, once they were on.
var endless = map[string]bool{}

// Register adds a contender that needs more than the standard library, as the next in the order.
func Register(name string, c Contender) {
	contenders[name] = c
	order = append(order, name)
}

// RegisterEndless adds one that goes on for ever, once it was on.
func RegisterEndless(name string, c Contender) {
	Register(name, c)
	endless[name] = true
}

// ticking takes a sample at each tick of a ticker, in a goroutine of its own, as such profilers do.
type ticking struct {
	hz      int
	prepare func(t *ticking, goroutines int)
	sample  func(t *ticking)

	text    []byte                // runtime.Stack's
	records []runtime.StackRecord // GoroutineProfile's
	counts  map[[32]uintptr]uint64
	taken   uint64
	end     atomic.Pointer[end]
	stop    chan struct{}
	stopped chan struct{}
}

func (t *ticking) Start(goroutines int) error {
	t.prepare(t, goroutines)
	t.taken = 0
	t.end.Store(nil)
	t.stop, t.stopped = make(chan struct{}), make(chan struct{})
	go t.run()
	return nil
}

func (t *ticking) run() {
	ticker := time.NewTicker(time.Second / time.Duration(t.hz))
	defer close(t.stopped)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			t.sample(t)
			atomic.AddUint64(&t.taken, 1)
			if e := t.end.Load(); e != nil && !time.Now().Before(e.at) {
				e.ended()
				return
			}
		case <-t.stop:
			return
		}
	}
}

func (t *ticking) EndAfter(d time.Duration, ended func()) {
	t.end.Store(&end{time.Now().Add(d), ended})
}

func (t *ticking) Samples() (uint64, bool) { return atomic.LoadUint64(&t.taken), true }

func (t *ticking) Stop() (uint64, string, error) {
	close(t.stop)
	<-t.stopped
	t.counts = nil
	return t.taken, "", nil
}

// forget gives up what is kept from window to window.
func forget() {
	for _, c := range contenders {
		if t, ok := c.(*ticking); ok {
			t.text, t.records = nil, nil
		}
	}
}

// growStack finds the size of buffer that holds all stacks. Each try stops the world as long as a sample does: not within a
// window, which favours this contender.
func growStack(t *ticking, goroutines int) {
	if t.text != nil { // from the window before
		return
	}
	for n := 64<<10 + goroutines*2048; ; n *= 2 {
		t.text = make([]byte, n)
		if runtime.Stack(t.text, true) < n {
			return
		}
	}
}

// takeStack only takes the text. Its parsing would come on top.
func takeStack(t *ticking) { runtime.Stack(t.text, true) }

func growProfile(t *ticking, goroutines int) {
	if t.records == nil {
		t.records = make([]runtime.StackRecord, goroutines+goroutines/10+100)
	}
	t.counts = map[[32]uintptr]uint64{}
}

// takeProfile counts equal stacks, as fgprof does.
func takeProfile(t *ticking) {
	n, ok := runtime.GoroutineProfile(t.records)
	if !ok {
		t.records = make([]runtime.StackRecord, n+n/10)
		return
	}
	for i := range t.records[:n] {
		t.counts[t.records[i].Stack0]++
	}
}

type pprofCPU struct{ out bytes.Buffer }

func (p *pprofCPU) Start(int) error {
	p.out.Reset()
	return pprof.StartCPUProfile(&p.out)
}

func (p *pprofCPU) Samples() (uint64, bool) { return 0, false }

func (p *pprofCPU) Stop() (uint64, string, error) {
	pprof.StopCPUProfile()
	n, err := profileSamples(p.out.Bytes())
	if err != nil {
		err = fmt.Errorf("pprof's profile: %w", err)
	}
	return n, "goroutines on a CPU only", err
}
