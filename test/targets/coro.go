//go:build go1.23
// +build go1.23

package main

import "example.org/goprof/targets/coro"

func init() { targets["coro"] = coro.Main }
