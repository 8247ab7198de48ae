// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPricesCommand(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(folder, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	old := file("old.json", `{"collected": "2020-01-01", "vendors": {}}`)
	undated := file("own.json", `{"vendors": {}}`)
	bad := file("bad.json", `{"vendors": {"openai": {"families": {"gpt": {"gpt-5": {"price": 1}}}}}}`)
	foreign := file("dev.json",
		`{"google": {"models": {"gemini-4-neon": {"cost": {"input": 4, "output": 15, "cache_read": 0.2}}}}}`)
	for _, tt := range []struct {
		args      []string
		want, err string
	}{
		{nil, "openai     gpt-6.2-sol", ""},
		{[]string{"check"}, " models, collected 20", ""},
		{[]string{"check", old}, " models, collected 2020-01-01", ""},
		{[]string{"check", "--max-age", "45", old}, "", "want 45 or less"},
		{[]string{"check", undated}, " models\n", ""},
		{[]string{"check", "--max-age", "45", undated}, "", "own.json has no member collected"},
		{[]string{"check", bad}, "", `bad.json: vendors: openai: families: gpt: gpt-5: unknown field "price"`},
		{[]string{"diff", foreign}, "gemini gemini-4-neon: input: 4, was 3\n", ""},
		{[]string{"convert", foreign}, `"gemini-4-neon": {`, ""},
		{[]string{"convert", filepath.Join(folder, "none")}, "", "no such file"},
	} {
		cmd := pricesCommand()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SilenceUsage = true
		cmd.SetArgs(tt.args)
		err := cmd.Execute()
		if tt.err == "" && (err != nil || !strings.Contains(out.String(), tt.want)) || tt.err != "" &&
			(err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%v: got %v\n%s\nwant %q, error %q", tt.args, err, out.String(), tt.want, tt.err)
		}
	}
}
