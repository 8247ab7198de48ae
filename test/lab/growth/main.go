// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Command growth draws the cost of a known request by the length of its conversation, from the
// tables of test/bench:
//
//	go -C test run ./bench -only growth | tee growth.md
//	go -C test run ./lab/growth growth.md >docs/images/growth.svg
//
// Without a file it reads standard input. Text around the tables is skipped.
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

// run draws the tables of a file, or of in without a name.
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
