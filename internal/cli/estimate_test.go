// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/estimate"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
)

// agentsFolder holds transcripts of agents.
const agentsFolder = "transcript/testdata"

// runCommand runs a subcommand like Caddy.
func runCommand(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := &cobra.Command{Use: "llm-cache", SilenceUsage: true}
	Root().CobraFunc(cmd)
	var out, progress bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&progress)
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), progress.String(), err
}

func TestEstimateCommand(t *testing.T) {
	out, progress, err := runCommand(t, "estimate", agentsFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"4 conversations with 68 requests", "claude-code", "codex", "gemini-cli", "pi", "total",
		"up to 20 requests", "The conversation in the middle",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if strings.Contains(out, "over 100") || strings.Contains(out, "passed over") {
		t.Errorf("it tells what is not there:\n%s", out)
	}
	if !strings.Contains(progress, "read 4 of 4 transcripts") ||
		!strings.Contains(progress, "simulated 68 of 68 requests") {
		t.Errorf("progress: %q", progress)
	}
	out, _, err = runCommand(t, "estimate", "--json", agentsFolder)
	var e estimate.Estimate
	if err != nil || json.Unmarshal([]byte(out), &e) != nil || e.Total.Requests != 68 {
		t.Errorf("%v: %s", err, out)
	}
	for _, args := range [][]string{
		{"estimate", t.TempDir()},
		{"estimate", "/nowhere"},
		{"estimate", "--policy", "off", agentsFolder},
		{"frobnicate"},
	} {
		if out, _, err := runCommand(t, args...); err == nil {
			t.Errorf("%v passed:\n%s", args, out)
		}
	}
	// Without a path the command searches the agents' folders.
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("CLAUDE_CONFIG_DIR", "")
	t.Setenv("CODEX_HOME", "")
	if _, _, err := runCommand(t, "estimate"); err == nil || !strings.Contains(err.Error(), home) {
		t.Errorf("an empty home: %v", err)
	}
	if err := os.CopyFS(filepath.Join(home, ".codex"), os.DirFS(filepath.Join(agentsFolder, "codex"))); err != nil {
		t.Fatal(err)
	}
	if out, _, err := runCommand(t, "estimate"); err != nil || !strings.Contains(out, "1 conversations with 19 requests") {
		t.Errorf("%v: %s", err, out)
	}
}

// Replay reads imported recordings, with the same result as the transcripts themselves.
func TestImport(t *testing.T) {
	out := filepath.Join(t.TempDir(), "recordings")
	if said, _, err := runCommand(t, "import", agentsFolder, "--out", out); err != nil ||
		!strings.Contains(said, "4 conversations in 4 files") {
		t.Fatalf("%v: %s", err, said)
	}
	tell := func(path string) (all []string) {
		found, err := recording.Find(path)
		if err != nil {
			t.Fatal(err)
		}
		report, err := trial.Run(t.Context(), found, trial.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range report.Runs[0].Conversations {
			c.Fired = nil
			one, _ := json.Marshal(c)
			all = append(all, string(one))
		}
		return all
	}
	if recorded, own := tell(out), tell(agentsFolder); len(own) != 4 || !slices.Equal(recorded, own) {
		t.Errorf("recordings\n%s\ntranscripts\n%s", strings.Join(recorded, "\n"), strings.Join(own, "\n"))
	}
	if _, _, err := runCommand(t, "import", agentsFolder); err == nil {
		t.Error("import without --out passed")
	}
}
