// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/subcommand"
)

func pricesFlag(cmd *cobra.Command) {
	cmd.Flags().String("prices", "", "File with prices and cache rules of models, as for the option prices of Caddyfiles")
}

// prices reads the flag's file, or returns the built-in table.
func prices(f caddycmd.Flags) (*pricing.Table, error) {
	t, err := pricing.ReadPrices(f.String("prices"))
	if err != nil {
		return nil, fmt.Errorf("prices: %w", err)
	}
	return t, nil
}

func pricesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prices [<file>]",
		Short: "Prints, checks, compares and converts cache rules and prices of models",
		Long: `
Prints the cache rules and prices of all models: those of the program, with the
members of a models file in their places where one is given.
`,
		Example: "  caddy llm-cache prices" + "\n" +
			"  caddy llm-cache prices check --max-age 45" + "\n" +
			"  caddy llm-cache prices diff api.json",
		Args: cobra.MaximumNArgs(1),
		RunE: subcommand.Run(func(cmd *cobra.Command, f caddycmd.Flags) error {
			t, err := pricing.ReadPrices(f.Arg(0))
			if err != nil {
				return err
			}
			return printPrices(cmd, t)
		}),
	}
	check := &cobra.Command{
		Use:   "check [--max-age <days>] [<file>]",
		Short: "Fails if a models file, or that of the program, has a mistake or is too old",
		Args:  cobra.MaximumNArgs(1),
		RunE:  subcommand.Run(checkPrices),
	}
	check.Flags().Int("max-age", 0, "Fail if the figures are of more days ago, 0 for any age")
	diff := &cobra.Command{
		Use:   "diff <file>",
		Short: "Prints in what a models file, or a table of LiteLLM or models.dev, differs from the program's",
		Args:  cobra.ExactArgs(1),
		RunE: subcommand.Run(func(cmd *cobra.Command, f caddycmd.Flags) error {
			text, err := converted(f.Arg(0))
			if err != nil {
				return err
			}
			t, err := pricing.BuiltIn().With(filepath.Base(f.Arg(0)), text)
			if err != nil {
				return err
			}
			for _, d := range pricing.BuiltIn().Differences(t, time.Now()) {
				fmt.Fprintln(cmd.OutOrStdout(), d)
			}
			return nil
		}),
	}
	convert := &cobra.Command{
		Use:   "convert <file>",
		Short: "Writes the prices of LiteLLM's or models.dev's table as a models file",
		Args:  cobra.ExactArgs(1),
		RunE: subcommand.Run(func(cmd *cobra.Command, f caddycmd.Flags) error {
			text, err := converted(f.Arg(0))
			if err == nil {
				_, err = cmd.OutOrStdout().Write(text)
			}
			return err
		}),
	}
	cmd.AddCommand(check, diff, convert)
	return cmd
}

// converted reads a models file, or a table of LiteLLM or models.dev as one.
func converted(name string) ([]byte, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if text, err = pricing.BuiltIn().Convert(text); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return text, nil
}

func checkPrices(cmd *cobra.Command, f caddycmd.Flags) error {
	t, collected := pricing.BuiltIn(), pricing.Collected()
	if name := f.Arg(0); name != "" {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if t, err = t.With(name, text); err != nil {
			return err
		}
		collected = pricing.CollectedOf(text)
	}
	limit := f.Int("max-age")
	if collected.IsZero() { // an operator's own prices need no date
		if limit > 0 {
			return fmt.Errorf("prices: %s has no member collected, needed by --max-age", f.Arg(0))
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%d models\n", len(t.Rows(time.Now())))
		return nil
	}
	if age := int(time.Since(collected).Hours() / 24); limit > 0 && age > limit {
		return fmt.Errorf("prices: collected %s: %d days ago, want %d or less", collected.Format(time.DateOnly), age, limit)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%d models, collected %s\n", len(t.Rows(time.Now())), collected.Format(time.DateOnly))
	return nil
}

func printPrices(cmd *cobra.Command, t *pricing.Table) error {
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "Dollars for a million tokens on %s; figures collected %s.\n\n", time.Now().UTC().Format(time.DateOnly),
		t.Collected().Format(time.DateOnly))
	fmt.Fprintln(w, "vendor\tmodel\tcache\tttl\tmin\tinput\twrite\tlong\tread\toutput\ttier\tchecked\tgrade")
	for _, r := range t.Rows(time.Now()) {
		input, output := fmt.Sprintf("%g", r.Input), fmt.Sprintf("%g", r.Output)
		write, long, read := fmt.Sprintf("%.4g", r.Input*r.Write), fmt.Sprintf("%.4g", r.Input*r.Write1h),
			fmt.Sprintf("%.4g", r.Input*r.Read)
		if r.Unpriced { // multiples of an unknown price
			input, output = "?", "?"
			write, long, read = fmt.Sprintf("%g×", r.Write), fmt.Sprintf("%g×", r.Write1h), fmt.Sprintf("%g×", r.Read)
		}
		tier := "–"
		if r.TierAbove > 0 {
			tier = fmt.Sprintf(">%dk %g×/%g×", r.TierAbove/1000, r.TierInput, r.TierOutput)
		}
		checked := "–"
		if !r.Checked.IsZero() {
			checked = r.Checked.Format(time.DateOnly)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Vendor, r.Model, r.Regime, r.TTL,
			r.MinTokens, input, write, long, read, output, tier, checked, r.Grade)
	}
	return w.Flush()
}
