package main

import "example.org/goprof/targets/asmfn"

func init() { targets["asmfn"] = asmfn.Main }
