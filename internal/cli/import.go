// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/subcommand"
)

func importCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import [flags] [<path>...] --out <folder>",
		Short: "Writes what your agents have on disk as recordings that replay takes",
		Long: `
Reads the conversations that agents have left on this machine, as estimate does,
and writes each as recordings, a file for each part between two compactions. What
looks like a key or a token is replaced, unless --redact=false; nothing else is:
the recordings hold what was said and read.
`,
		Example: "  caddy llm-cache import --out traces",
		RunE:    subcommand.Run(importMain),
	}
	cmd.Flags().String("out", "", "Folder to write the recordings to; it is made if need be")
	cmd.Flags().Bool("redact", true, "Replace what looks like a key or a token")
	return cmd
}

func importMain(cmd *cobra.Command, f caddycmd.Flags) error {
	out := f.String("out")
	if out == "" {
		return fmt.Errorf("import: --out <folder> says where to")
	}
	found, err := sources(f.Args())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o700); err != nil {
		return err
	}
	line := &progressLine{w: cmd.ErrOrStderr(), what: "read %d of %d transcripts"}
	conversations, files, unreadable := 0, 0, 0
	for i, s := range found {
		sessions, err := s.Read()
		if err != nil {
			unreadable++
		}
		for _, one := range sessions {
			if f.Bool("redact") {
				one.Redact()
			}
			if err := one.Save(out); err != nil {
				return err
			}
			conversations++
			files += len(one.Parts)
		}
		line.show(i+1, len(found))
	}
	line.clear()
	fmt.Fprintf(cmd.OutOrStdout(), "%d conversations in %d files in %s\n", conversations, files, out)
	if unreadable > 0 {
		fmt.Fprintf(cmd.OutOrStdout(), "%d transcripts could not be read\n", unreadable)
	}
	if conversations == 0 {
		return fmt.Errorf("import: no conversation with an answered request in %d transcripts", len(found))
	}
	return nil
}
