// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

// The settings of clients, read as the clients read them, for wrap and doctor.

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// surroundings are the places of a client's settings: the environment, the home folder and the working folder.
type surroundings struct {
	getenv    func(name string) string
	home, dir string
}

func (l *launch) surroundings() surroundings { return surroundings{l.getenv, l.home, l.dir} }

func (p *Patient) surroundings() surroundings { return surroundings{p.Getenv, p.Home, p.Dir} }

// claudeProviders are the variables by which Claude Code uses another API than that of its base URL.
var claudeProviders = []string{
	"CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY", "CLAUDE_CODE_USE_MANTLE",
	"CLAUDE_CODE_USE_ANTHROPIC_AWS", "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD",
}

// claudeOn reports whether Claude Code takes a variable for set. Source: the client, version 2.1.328.
func claudeOn(value string) bool {
	return slices.Contains([]string{"1", "true", "yes", "on"}, strings.ToLower(strings.TrimSpace(value)))
}

// codexSettings are the strings in Codex's configuration, by full name.
type codexSettings map[string]string

// add adds the strings of a table, and of the tables in it.
func (s codexSettings) add(prefix string, table map[string]any) {
	for name, value := range table {
		switch v := value.(type) {
		case string:
			s[prefix+name] = v
		case map[string]any:
			s.add(prefix+name+".", v)
		}
	}
}

// override applies an option -c: the value is TOML, or else a string.
func (s codexSettings) override(name, value string) {
	var parsed struct{ Value any }
	if _, err := toml.Decode("value = "+value, &parsed); err != nil {
		parsed.Value = strings.Trim(value, `"'`)
	}
	if table, ok := parsed.Value.(map[string]any); ok {
		// The table replaces the one of the file.
		for old := range s {
			if strings.HasPrefix(old, name+".") {
				delete(s, old)
			}
		}
		s.add(name+".", table)
		return
	}
	s.add("", map[string]any{name: parsed.Value})
}

// codexFile returns the path of a file among Codex's settings.
func (s surroundings) codexFile(name string) string {
	return filepath.Join(cmp.Or(s.getenv("CODEX_HOME"), filepath.Join(s.home, ".codex")), name)
}

// read adds the settings in a file.
func (s codexSettings) read(path string) error {
	var table map[string]any
	_, err := toml.DecodeFile(path, &table)
	s.add("", table)
	return err
}

// codexProvided are the providers that Codex has without settings. Their addresses cannot be set.
var codexProvided = []string{"openai", "ollama", "lmstudio", "amazon-bedrock"}

// provider returns the chosen provider, and whether the settings define it.
func (s codexSettings) provider() (name string, defined bool) {
	name = cmp.Or(s["profiles."+s["profile"]+".model_provider"], s["model_provider"], "openai")
	return name, slices.Contains(s.providers(), name)
}

// providers returns the defined providers, sorted.
func (s codexSettings) providers() []string {
	names := map[string]bool{}
	for key := range s {
		if key, ok := strings.CutPrefix(key, "model_providers."); ok {
			name, _, _ := strings.Cut(key, ".")
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
