//go:build cgo
// +build cgo

package main

import "example.org/goprof/targets/cgo"

func init() { targets["cgo"] = cgo.Main }
