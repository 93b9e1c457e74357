//go:build cgo
// +build cgo

package main

import "example.org/goprof/targets/cwaits"

func init() { targets["cwaits"] = cwaits.Main }
