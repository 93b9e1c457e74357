//go:build go1.18
// +build go1.18

package main

import "runtime"

func generic[T any](v T) { park(); runtime.KeepAlive(v) }

func init() { named = append(named, func() { generic(1) }, func() { generic("x") }) }
