// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Command growth draws what a known request costs by how long its conversation is, from
// the tables that e2e/bench makes of that:
//
//	go -C test run ./bench -only growth | tee growth.md
//	go -C test run ./lab/growth growth.md >docs/images/growth.svg
//
// Without a file it reads what comes in. Whatever else stands around the tables is passed over.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	flag.Parse()
	if err := run(flag.Arg(0), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

// run draws what a file holds, or what comes in if none is named.
func run(name string, in io.Reader, out io.Writer) error {
	if name != "" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	all, err := read(in)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return draw(out, all)
}
