// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package compressor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lingua"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/subcommand"
)

// Command returns the subcommand `lingua` of `caddy llm-cache`.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "lingua --model <folder>|--server <url> [--rate <part>] [--int8] [--threads <n>] [--color " +
			"auto|always|never] [--text] <file>",
		Short: "Drops words from a text as LLMLingua-2 does, and shows which",
		Long: `
Reads a text, from standard input if the file is -, drops the words that matter
least by the model's opinion, and prints all of them: what is dropped in red, or
between [- and -] where there is no colour. Then it tells what that saves, how
long it took, and what computed.

The model is a folder with config.json, tokenizer.json and model.safetensors, of
a token classifier such as Microsoft's LLMLingua-2 ones, or that of a server
(docs/guides/lingua.md). With --text the shortened text alone is printed.
`,
		Example: "  caddy llm-cache lingua --server http://127.0.0.1:8090 --rate 0.6 notes.txt",
		Args:    cobra.ExactArgs(1),
		RunE:    subcommand.Run(run),
	}
	cmd.Flags().String("model", "", "Folder of a model to run in the process")
	cmd.Flags().String("server", "", "URL of a server to ask instead")
	cmd.Flags().Float64("rate", 0.5, "The part of the tokens to keep, over 0 and up to 1")
	cmd.Flags().Bool("int8", false, "Keep the model's weights in 8 bits")
	cmd.Flags().Int("threads", 1, "How many cores to use")
	cmd.Flags().String("color", "auto", "Whether to use colour: auto, always, never")
	cmd.Flags().Bool("text", false, "Print the shortened text alone")
	return cmd
}

// maxInput bounds the text that the command reads.
const maxInput = 16 << 20

func run(cmd *cobra.Command, f caddycmd.Flags) error {
	colored, err := colorful(f.String("color"), cmd.OutOrStdout())
	if err != nil {
		return err
	}
	// This form of the condition rejects NaN, too.
	if r := f.Float64("rate"); !(r > 0 && r <= 1) {
		return fmt.Errorf("rate must be in (0, 1], got %v", r)
	}
	c, done, err := chosen(f)
	if err != nil {
		return err
	}
	defer done()
	text, err := read(cmd.InOrStdin(), f.Arg(0))
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	health := c.Health(ctx) // this also loads the model
	if health.Error != "" {
		return errors.New(health.Error)
	}
	start := time.Now()
	r, err := c.Compress(ctx, text, f.Float64("rate"))
	if err != nil {
		return err
	}
	if f.Bool("text") {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), r.Text)
		return err
	}
	_, err = io.WriteString(cmd.OutOrStdout(), shown(r.Words, colored)+savings(r, time.Since(start), health.Device))
	return err
}

func chosen(f caddycmd.Flags) (Compressor, func(), error) {
	model, server := f.String("model"), f.String("server")
	switch {
	case (model == "") == (server == ""):
		return nil, nil, errors.New("one of --model and --server is needed")
	case server != "":
		h := &HTTP{URL: server}
		return h, func() {}, h.Provision(caddy.Context{})
	}
	e := &Embedded{Model: model, Int8: f.Bool("int8"), Threads: f.Int("threads")}
	if err := e.Provision(caddy.Context{}); err != nil {
		return nil, nil, err
	}
	return e, func() { _ = e.Cleanup() }, nil
}

func read(in io.Reader, path string) (string, error) {
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	// One byte more shows that the text is too long.
	b, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", path, err)
	case len(b) > maxInput:
		return "", fmt.Errorf("%s: longer than %s", path, humanize.IBytes(maxInput))
	}
	return string(b), nil
}

func colorful(when string, out io.Writer) (bool, error) {
	switch when {
	case "always":
		return true, nil
	case "never":
		return false, nil
	case "auto":
		f, ok := out.(*os.File)
		if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
			return false, nil
		}
		info, err := f.Stat()
		return err == nil && info.Mode()&os.ModeCharDevice != 0, nil
	}
	return false, fmt.Errorf("color: %q is not auto, always or never", when)
}

// shown formats the words, with runs of dropped words marked.
func shown(words []lingua.Word, colored bool) string {
	drop, keep := "[-", "-]"
	if colored {
		drop, keep = "\x1b[9;31m", "\x1b[0m"
	}
	var b strings.Builder
	for i, w := range words {
		first := i == 0 || words[i-1].Keep
		if i > 0 {
			b.WriteByte(' ')
		}
		if !w.Keep && first {
			b.WriteString(drop)
		}
		b.WriteString(harmless(w.Text))
		if !w.Keep && (i == len(words)-1 || words[i+1].Keep) {
			b.WriteString(keep)
		}
	}
	b.WriteByte('\n')
	return b.String()
}

// harmless replaces control characters.
func harmless(s string) string {
	// A terminal would obey them.
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// savings describes a result: dropped words, duration, device.
func savings(r lingua.Result, took time.Duration, device string) string {
	dropped := 0
	for _, w := range r.Words {
		if !w.Keep {
			dropped++
		}
	}
	left := 100.0
	if r.Before > 0 {
		left = 100 * float64(r.After) / float64(r.Before)
	}
	return fmt.Sprintf("\n%s of %s words dropped; %s tokens become %s (%.0f %%); %.2f s on %s\n",
		humanize.Comma(int64(dropped)), humanize.Comma(int64(len(r.Words))),
		humanize.Comma(int64(r.Before)), humanize.Comma(int64(r.After)), left, took.Seconds(), harmless(device))
}
