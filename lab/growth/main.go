// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

// Command growth draws what a known request costs by how long its conversation is, from
// the tables that e2e/bench makes of that:
//
//	go -C e2e run ./bench -only growth | tee growth.md
//	go run ./lab/growth growth.md >docs/growth.svg
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
