//go:build go1.18
// +build go1.18

package main

import "example.org/goprof/targets/generics"

func init() {
	targets["generics"] = generics.Main
	still = append(still, generics.Start)
}
