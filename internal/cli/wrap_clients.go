// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// launch is the start of a client: its arguments, its environment, and the folders of its settings.
type launch struct {
	args, env []string
	home, dir string
	managed   string // the file of Claude Code's managed settings
}

// managedSettings returns the file of settings that an administrator imposes on Claude Code.
// Source: code.claude.com/docs/en/settings, 2026-11-28.
func managedSettings() string {
	switch runtime.GOOS {
	case "darwin":
		return "/Library/Application Support/ClaudeCode/managed-settings.json"
	case "windows":
		return `C:\Program Files\ClaudeCode\managed-settings.json`
	}
	return "/etc/claude-code/managed-settings.json"
}

type target struct {
	base     string // the base URL as this client writes it
	site     string // the address of the running site, empty for a private instance
	official bool   // a private instance before the provider's own API
}

type client struct {
	name, program string
	// api is the client's default base URL. version is the end of it that a site's address needs, too.
	api, version string
	// elsewhere returns the setting by which requests go past a base URL of ours, in words with the
	// remedy, or "". A site serves any provider, a private instance one.
	elsewhere func(l *launch, site bool) string
	// base returns the configured base URL, or "".
	base func(l *launch) string
	// set changes the launch to send requests to the target.
	set func(l *launch, to target)
}

var clients = []client{
	{"claude", "claude", "https://api.anthropic.com", "", claudeElsewhere, claudeBase, setClaude},
	{"codex", "codex", "https://api.openai.com/v1", "/v1", codexElsewhere, codexBase, setCodex},
	{"opencode", "opencode", "https://api.anthropic.com/v1", "/v1", opencodeElsewhere, opencodeBase, setOpencode},
	{"gemini", "gemini", "https://generativelanguage.googleapis.com", "", geminiElsewhere, geminiBase, setGemini},
}

func (l *launch) getenv(name string) string {
	for _, pair := range slices.Backward(l.env) {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}

func (l *launch) setenv(name, value string) { l.env = append(l.env, name+"="+value) }

func hasOption(value string) bool { return value != "" && value != "0" && value != "false" }

const anthropicBase = "ANTHROPIC_BASE_URL"

// claudeFlag returns the settings on the command line of Claude Code, and the index of their argument, or -1.
func claudeFlag(l *launch) (at int, settings string) {
	for i, arg := range l.args {
		switch value, joined := strings.CutPrefix(arg, "--settings="); {
		case arg == "--":
			return -1, ""
		case joined:
			at, settings = i, value
		case arg == "--settings" && i+1 < len(l.args):
			at, settings = i+1, l.args[i+1]
		default:
			continue
		}
		if !strings.HasPrefix(strings.TrimSpace(settings), "{") {
			// The argument is JSON or the name of a file.
			raw, _ := os.ReadFile(settings)
			settings = string(raw)
		}
		return at, settings
	}
	return -1, ""
}

// claudeEnv returns a variable as Claude Code sees it, and whether it comes from the settings.
func claudeEnv(l *launch, name string) (value string, inSettings bool) {
	_, flag := claudeFlag(l)
	sources := append(make([]string, 0, 4), flag)
	for _, path := range []string{
		filepath.Join(l.dir, ".claude", "settings.local.json"), filepath.Join(l.dir, ".claude", "settings.json"),
		filepath.Join(cmp.Or(l.getenv("CLAUDE_CONFIG_DIR"), filepath.Join(l.home, ".claude")), "settings.json"),
	} {
		raw, _ := os.ReadFile(path)
		sources = append(sources, string(raw))
	}
	// Settings override the environment.
	for _, settings := range sources {
		if v := gjson.Get(settings, "env."+name); v.Exists() {
			return v.String(), true
		}
	}
	return l.getenv(name), false
}

func claudeElsewhere(l *launch, _ bool) string {
	for _, name := range []string{"CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"} {
		if value, _ := claudeEnv(l, name); hasOption(value) {
			return name + " is set: unset it"
		}
	}
	raw, _ := os.ReadFile(l.managed)
	if base := gjson.GetBytes(raw, "env."+anthropicBase).String(); base != "" {
		return fmt.Sprintf("%s sets %s to %s, which no other setting overrides: change it there", l.managed, anthropicBase, base)
	}
	return ""
}

func claudeBase(l *launch) string {
	base, _ := claudeEnv(l, anthropicBase)
	return base
}

// firstParty are the variables that restore features of Claude Code under a base URL: the window of
// a million tokens and the meters of a plan by the first, the search for tools by both. Anthropic's
// own API supports all of them, unlike some gateways.
var firstParty = map[string]string{"_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL": "1", "ENABLE_TOOL_SEARCH": "true"}

func setClaude(l *launch, to target) {
	if to.official {
		for name, value := range firstParty {
			if has, inSettings := claudeEnv(l, name); has == "" && !inSettings {
				l.setenv(name, value)
			}
		}
	}
	_, inSettings := claudeEnv(l, anthropicBase)
	l.setenv(anthropicBase, to.base)
	if !inSettings {
		return
	}
	// The settings override the environment, and those of the command line override files.
	at, flag := claudeFlag(l)
	settings := map[string]any{}
	_ = json.Unmarshal([]byte(flag), &settings)
	env, _ := settings["env"].(map[string]any)
	if env == nil {
		env = map[string]any{}
	}
	env[anthropicBase] = to.base
	settings["env"] = env
	raw, _ := json.Marshal(settings) // made of JSON
	switch {
	case at < 0:
		l.args = append([]string{"--settings", string(raw)}, l.args...)
	case strings.HasPrefix(l.args[at], "--settings="):
		l.args[at] = "--settings=" + string(raw)
	default:
		l.args[at] = string(raw)
	}
}

// quoteTOML matches a table, or a line of a name and a string, in Codex's configuration.
var quoteTOML = regexp.MustCompile(`(?m)^\s*(?:\[([^\]]*)\]|([a-z_]+)\s*=\s*["']([^"'\n]*)["'])`)

// codexSettings returns the strings in Codex's configuration and on its command line, by full name.
func codexSettings(l *launch) map[string]string {
	found := map[string]string{}
	raw, _ := os.ReadFile(filepath.Join(cmp.Or(l.getenv("CODEX_HOME"), filepath.Join(l.home, ".codex")), "config.toml"))
	table := ""
	for _, m := range quoteTOML.FindAllStringSubmatch(string(raw), -1) {
		if m[2] == "" {
			table = strings.NewReplacer(`"`, "", "'", "").Replace(m[1]) + "."
			continue
		}
		found[table+m[2]] = m[3]
	}
	for i := range l.args {
		if name, value, ok := codexOverride(l.args, i); ok {
			found[name] = strings.Trim(value, `"'`)
		}
	}
	return found
}

func codexOverride(args []string, i int) (name, value string, ok bool) {
	if (args[i] != "-c" && args[i] != "--config") || i+1 >= len(args) {
		return "", "", false
	}
	return strings.Cut(args[i+1], "=")
}

// codexProvider returns the custom provider that Codex is configured to use, or "".
func codexProvider(settings map[string]string) string {
	if p := settings["model_provider"]; p != "openai" && settings["model_providers."+p+".base_url"] != "" {
		return p
	}
	return ""
}

// codexElsewhere looks for a profile with a provider of its own, which goes before settings on the
// command line.
func codexElsewhere(l *launch, _ bool) string {
	settings := codexSettings(l)
	profile := settings["profile"]
	for i, arg := range l.args {
		if value, joined := strings.CutPrefix(arg, "--profile="); joined {
			profile = value
		} else if (arg == "--profile" || arg == "-p") && i+1 < len(l.args) {
			profile = l.args[i+1]
		}
	}
	if p := settings["profiles."+profile+".model_provider"]; profile != "" && p != "" {
		return fmt.Sprintf("the profile %s has model_provider = %q: take the line out of it", profile, p)
	}
	return ""
}

func codexBase(l *launch) string {
	settings := codexSettings(l)
	if p := codexProvider(settings); p != "" {
		return settings["model_providers."+p+".base_url"]
	}
	return cmp.Or(settings["openai_base_url"], l.getenv("OPENAI_BASE_URL"))
}

func setCodex(l *launch, to target) {
	const provider = "model_providers.llm_cache."
	add := []string{
		"-c", `model_provider="llm_cache"`, "-c", provider + `name="llm_cache"`,
		"-c", provider + fmt.Sprintf("base_url=%q", to.base),
		"-c", provider + `wire_api="responses"`, "-c", provider + `env_key="OPENAI_API_KEY"`,
	}
	replaced := []string{"model_provider", "openai_base_url"}
	if p := codexProvider(codexSettings(l)); p != "" {
		// The provider keeps its key and headers. Only the address changes.
		address := "model_providers." + p + ".base_url"
		add, replaced = []string{"-c", fmt.Sprintf("%s=%q", address, to.base)}, []string{address}
	}
	// The last setting on the command line wins.
	args := add
	for i := 0; i < len(l.args); i++ {
		if name, _, ok := codexOverride(l.args, i); ok && slices.Contains(replaced, name) {
			i++
			continue
		}
		args = append(args, l.args[i])
	}
	l.args = args
}

const opencodeContent = "OPENCODE_CONFIG_CONTENT"

// opencodeSetting returns a setting of opencode's configurations, "" if none has it.
func opencodeSetting(l *launch, path string) string {
	sources := append(make([]string, 0, 4), l.getenv(opencodeContent))
	for _, path := range []string{
		filepath.Join(l.dir, "opencode.json"), l.getenv("OPENCODE_CONFIG"), filepath.Join(l.home, ".config", "opencode",
			"opencode.json"),
	} {
		raw, _ := os.ReadFile(path)
		sources = append(sources, string(raw))
	}
	for _, config := range sources {
		if value := gjson.Get(config, path).String(); value != "" {
			return value
		}
	}
	return ""
}

func opencodeElsewhere(l *launch, site bool) string {
	model := opencodeSetting(l, "model")
	for i, arg := range l.args {
		if (arg == "--model" || arg == "-m") && i+1 < len(l.args) {
			model = l.args[i+1]
		}
	}
	provider, _, named := strings.Cut(model, "/")
	if !named || provider == "anthropic" || site && (provider == "openai" || provider == "google") {
		return ""
	}
	return fmt.Sprintf("its model is %s, and only models of the provider anthropic go through, or with --url those of "+
		"openai and google", model)
}

func opencodeBase(l *launch) string { return opencodeSetting(l, "provider.anthropic.options.baseURL") }

func setOpencode(l *launch, to target) {
	config := map[string]any{}
	_ = json.Unmarshal([]byte(l.getenv(opencodeContent)), &config)
	within := func(m map[string]any, name string) map[string]any {
		inner, _ := m[name].(map[string]any)
		if inner == nil {
			inner = map[string]any{}
			m[name] = inner
		}
		return inner
	}
	bases := map[string]string{"anthropic": to.base}
	if to.site != "" { // a private instance serves one provider only
		bases["openai"], bases["google"] = to.site+"/v1", to.site+"/v1beta"
	}
	for name, base := range bases {
		within(within(within(config, "provider"), name), "options")["baseURL"] = base
	}
	raw, _ := json.Marshal(config) // made of JSON
	l.setenv(opencodeContent, string(raw))
}

const geminiVariable = "GOOGLE_GEMINI_BASE_URL"

// geminiEnv returns a variable as Gemini CLI sees it.
func geminiEnv(l *launch, name string) string {
	if value := l.getenv(name); value != "" {
		return value
	}
	// The environment lacks it: the nearest .env counts, above the working folder or in the home folder.
	var folders []string
	for dir := l.dir; ; dir = filepath.Dir(dir) {
		if folders = append(folders, dir); dir == filepath.Dir(dir) {
			break
		}
	}
	for _, dir := range append(folders, l.home) {
		for _, file := range []string{filepath.Join(dir, ".gemini", ".env"), filepath.Join(dir, ".env")} {
			raw, err := os.ReadFile(file)
			if err != nil {
				continue
			}
			for line := range strings.Lines(string(raw)) {
				if key, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "="); ok &&
					strings.TrimSpace(key) == name {
					return strings.Trim(strings.TrimSpace(value), `"'`)
				}
			}
			return ""
		}
	}
	return ""
}

func geminiElsewhere(l *launch, _ bool) string {
	const vertex = "GOOGLE_GENAI_USE_VERTEXAI"
	if hasOption(geminiEnv(l, vertex)) {
		return vertex + " is set: unset it"
	}
	for _, path := range []string{
		filepath.Join(l.dir, ".gemini", "settings.json"), filepath.Join(l.home, ".gemini", "settings.json"),
	} {
		raw, _ := os.ReadFile(path)
		// Logins go to Google's Code Assist, which has no base URL.
		switch auth := gjson.GetBytes(raw, "security.auth.selectedType").String(); auth {
		case "":
			continue
		case "gemini-api-key", "gateway":
			return ""
		default:
			return fmt.Sprintf(`security.auth.selectedType in %s is %q: write "gemini-api-key"`, path, auth)
		}
	}
	return ""
}

func geminiBase(l *launch) string { return geminiEnv(l, geminiVariable) }

func setGemini(l *launch, to target) { l.setenv(geminiVariable, to.base) }
