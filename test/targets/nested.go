//go:build cgo
// +build cgo

package main

import "example.org/goprof/targets/nested"

func init() { targets["nested"] = nested.Main }
