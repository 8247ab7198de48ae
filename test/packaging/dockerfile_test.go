// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// TestDockerfile: BuildKit understands the file, all stages that it names exist, and so do all files that it copies.
func TestDockerfile(t *testing.T) {
	f, err := os.Open("../../packaging/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	parsed, err := parser.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range parsed.Warnings {
		t.Errorf("%s", w.Short)
	}
	stages, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, s := range stages {
		if !names[s.BaseName] && !strings.Contains(s.BaseName, ":") {
			t.Errorf("stage %q is from %q, no earlier stage and no image with a tag", s.Name, s.BaseName)
		}
		for _, c := range s.Commands {
			cp, ok := c.(*instructions.CopyCommand)
			if !ok {
				continue
			}
			if cp.From != "" {
				if !names[cp.From] {
					t.Errorf("stage %q copies from %q, no earlier stage", s.Name, cp.From)
				}
				continue
			}
			for _, path := range cp.SourcePaths {
				if strings.HasPrefix(path, "$TARGETPLATFORM/") { // goreleaser's
					continue
				}
				if _, err := os.Stat(filepath.Join("../..", path)); err != nil {
					t.Errorf("stage %q copies %v", s.Name, err)
				}
			}
		}
		names[s.Name] = true
	}
	if !names["release"] {
		t.Error("there is no stage release, which .goreleaser.yaml names")
	}
}
