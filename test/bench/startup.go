package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const startups = 11

// startups measures how long the target takes to its main.main: started by goprof run, and by itself, in turn.
func (m *measured) startups(ctx context.Context, s *settings, dir string) error {
	var times [2][]float64
	out := filepath.Join(dir, "startup.pb.gz")
	for i := 0; i < 2*startups; i++ {
		command := []string{s.target, "-start-only"}
		if i%2 == 0 {
			command = append([]string{s.goprof, "run", "-q", "--no-dsn", "-o", out, "--"}, command...)
		}
		ms, err := startup(ctx, command)
		os.Remove(out)
		if err != nil {
			return err
		}
		times[i%2] = append(times[i%2], ms)
	}
	m.startup = [2]spread{spreadOf(times[0]), spreadOf(times[1])}
	return nil
}

// startup is the time from the start of a command to the target's main.main, in ms, as the target says it.
func startup(ctx context.Context, command []string) (float64, error) {
	var stdout, stderr strings.Builder
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = append(os.Environ(), fmt.Sprintf("BENCH_BORN=%d", monotonic()))
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s: %w %s", strings.Join(command, " "), err, strings.TrimSpace(stderr.String()))
	}
	var ns int64
	if _, err := fmt.Sscanf(stdout.String(), "START ns=%d", &ns); err != nil {
		return 0, fmt.Errorf("%s: %q: %w", strings.Join(command, " "), stdout.String(), err)
	}
	return float64(ns) / 1e6, nil
}
