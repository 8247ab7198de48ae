// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

// The settings of clients, read as the clients read them, for wrap and doctor.

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/tidwall/gjson"
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

// folders returns the working folder and those above it, the nearest first.
func (s surroundings) folders() (all []string) {
	if s.dir == "" {
		return nil
	}
	for dir := s.dir; ; dir = filepath.Dir(dir) {
		if all = append(all, dir); dir == filepath.Dir(dir) {
			return all
		}
	}
}

const opencodeContent = "OPENCODE_CONFIG_CONTENT"

// opencodeConfig is one of opencode's configurations: its file, or the variable, and its JSON.
type opencodeConfig struct{ from, text string }

// opencodeVariable matches a variable in opencode's configurations.
var opencodeVariable = regexp.MustCompile(`\{env:([^}]+)\}`)

// opencodeConfigs returns opencode's configurations, the one that overrides the others first.
func (s surroundings) opencodeConfigs() (all []opencodeConfig) {
	add := func(from, text string) {
		text = opencodeVariable.ReplaceAllStringFunc(withoutComments(text), func(v string) string {
			return s.getenv(opencodeVariable.FindStringSubmatch(v)[1])
		})
		all = append(all, opencodeConfig{from, text})
	}
	if text := s.getenv(opencodeContent); text != "" {
		add(opencodeContent, text)
	}
	folders := s.folders()
	files := make([]string, 0, 4*len(folders)+7)
	for _, dir := range folders {
		for _, within := range []string{".opencode", ""} {
			files = append(files, filepath.Join(dir, within, "opencode.jsonc"), filepath.Join(dir, within, "opencode.json"))
		}
	}
	files = append(files, s.getenv("OPENCODE_CONFIG"))
	for _, config := range []string{s.getenv("XDG_CONFIG_HOME"), filepath.Join(s.home, ".config")} {
		for _, name := range []string{"opencode.jsonc", "opencode.json", "config.json"} {
			files = append(files, filepath.Join(config, "opencode", name))
		}
	}
	for _, path := range files {
		if raw, err := os.ReadFile(path); err == nil {
			add(path, string(raw))
		}
	}
	return all
}

// jsonComment matches strings, comments and trailing commas in JSON with comments.
var jsonComment = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|//[^\n]*|(?s:/\*.*?\*/)`)

// jsonComma matches strings, and commas before the end of an object or array.
var jsonComma = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|,\s*[}\]]`)

// withoutComments turns JSON with comments and trailing commas into JSON.
func withoutComments(text string) string {
	text = jsonComment.ReplaceAllStringFunc(text, func(s string) string {
		if s[0] == '"' {
			return s
		}
		return " "
	})
	return jsonComma.ReplaceAllStringFunc(text, func(s string) string {
		if s[0] == '"' {
			return s
		}
		return s[len(s)-1:]
	})
}

// dotenv matches a line of a .env file: the name, and the value with its quotes.
var dotenv = regexp.MustCompile(`(?m)^\s*(?:export\s+)?([\w.-]+)\s*=[ \t]*('[^']*'|"[^"]*"|[^#\r\n]*)`)

// geminiEnv returns a variable as Gemini CLI sees it.
func (s surroundings) geminiEnv(name string) (value string) {
	if value := s.getenv(name); value != "" {
		return value
	}
	// The environment lacks it: the nearest .env counts, above the working folder or in the home folder.
	for _, dir := range append(s.folders(), s.home) {
		for _, file := range []string{filepath.Join(dir, ".gemini", ".env"), filepath.Join(dir, ".env")} {
			raw, err := os.ReadFile(file)
			if err != nil {
				continue
			}
			for _, line := range dotenv.FindAllStringSubmatch(string(raw), -1) {
				if line[1] == name {
					value = strings.Trim(strings.TrimSpace(line[2]), `"'`)
				}
			}
			return value
		}
	}
	return ""
}

// geminiElsewhere returns the setting by which Gemini CLI ignores its base URL, in words with the remedy, or "".
func (s surroundings) geminiElsewhere() string {
	for _, dir := range []string{cmp.Or(s.dir, s.home), s.home} {
		path := filepath.Join(dir, ".gemini", "settings.json")
		raw, _ := os.ReadFile(path)
		// Logins go to Google's Code Assist, which has no base URL.
		switch auth := gjson.Get(withoutComments(string(raw)), "security.auth.selectedType").String(); auth {
		case "":
			continue
		case "gemini-api-key", "gateway":
			return ""
		default:
			return fmt.Sprintf(`security.auth.selectedType in %s is %q: write "gemini-api-key"`, path, auth)
		}
	}
	// Without a chosen type, the environment chooses. Source: the client, version 0.61.0.
	for _, name := range []string{"GOOGLE_GENAI_USE_GCA", "GOOGLE_GENAI_USE_VERTEXAI"} {
		if strings.EqualFold(s.geminiEnv(name), "true") {
			return name + " is set: unset it"
		}
	}
	return ""
}
