package main

import (
	"bytes"

	"github.com/felixge/fgprof"
	"github.com/google/pprof/profile"
)

// fgprofContender is fgprof as its users call it.
type fgprofContender struct {
	out        bytes.Buffer
	stop       func() error
	goroutines int
}

func (f *fgprofContender) Start(goroutines int) error {
	f.out.Reset()
	f.goroutines = goroutines
	f.stop = fgprof.Start(&f.out, fgprof.FormatPprof)
	return nil
}

func (f *fgprofContender) Samples() (uint64, bool) { return 0, false }

// Stop counts ticks: each has one sample of every parked goroutine.
func (f *fgprofContender) Stop() (uint64, string, error) {
	if err := f.stop(); err != nil {
		return 0, "", err
	}
	p, err := profile.Parse(&f.out)
	if err != nil {
		return 0, "", err
	}
	var looks int64
	for _, s := range p.Sample {
		if isParked(s) {
			looks += s.Value[0]
		}
	}
	return uint64(looks) / uint64(f.goroutines), "", nil
}

const parkedIn = "example.org/goprof/bench/crowd.(*parked).rest"

func isParked(s *profile.Sample) bool {
	for _, l := range s.Location {
		for _, line := range l.Line {
			if line.Function.Name == parkedIn {
				return true
			}
		}
	}
	return false
}
