// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
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
	name string // also of its program
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
	{"claude", "https://api.anthropic.com", "", claudeElsewhere, claudeBase, setClaude},
	{"codex", "https://api.openai.com/v1", "/v1", codexElsewhere, codexBase, setCodex},
	{"opencode", "https://api.anthropic.com/v1", "/v1", opencodeElsewhere, opencodeBase, setOpencode},
	{"gemini", "https://generativelanguage.googleapis.com", "", geminiElsewhere, geminiBase, setGemini},
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

// bypassProxy keeps requests to an address of this machine from a forward proxy, which some clients ask even for these.
func (l *launch) bypassProxy(base string) {
	u, err := url.Parse(base)
	proxied := slices.ContainsFunc([]string{"HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"},
		func(name string) bool { return l.getenv(name) != "" })
	if err != nil || !loopback(u.Hostname()) || !proxied {
		return
	}
	hosts := append(strings.Split(cmp.Or(l.getenv("no_proxy"), l.getenv("NO_PROXY")), ","), u.Hostname())
	value := strings.TrimPrefix(strings.Join(hosts, ","), ",")
	l.setenv("NO_PROXY", value)
	l.setenv("no_proxy", value)
}

const anthropicBase = "ANTHROPIC_BASE_URL"

// claudeFlag returns the settings on the command line of Claude Code, and the index of their argument, or -1.
func claudeFlag(l *launch) (at int, settings string) {
	at = -1
	args := l.options()
	for i := range args {
		if value, width := optionAt(args, i, "--settings", "--settings"); width > 0 {
			at, settings = i+width-1, value
		}
	}
	if at >= 0 && !strings.HasPrefix(strings.TrimSpace(settings), "{") {
		// The argument is JSON or the name of a file.
		raw, _ := os.ReadFile(settings)
		settings = string(raw)
	}
	return at, settings
}

// claudeEnv returns a variable as Claude Code sees it, and whether it comes from the settings.
func claudeEnv(l *launch, name string) (value string, inSettings bool) {
	managed, _ := os.ReadFile(l.managed)
	_, flag := claudeFlag(l)
	sources := append(make([]string, 0, 5), string(managed), flag)
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
	for _, name := range claudeProviders {
		if value, _ := claudeEnv(l, name); claudeOn(value) {
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

// optionAt returns the value of an option of a client at an index of its arguments, joined or not, and the number
// of arguments that it takes, 0 for another argument.
func optionAt(args []string, i int, short, long string) (value string, width int) {
	arg := args[i]
	if arg == short || arg == long {
		if i+1 == len(args) {
			return "", 0
		}
		return args[i+1], 2
	}
	if value, ok := strings.CutPrefix(arg, long+"="); ok {
		return value, 1
	}
	if value, ok := strings.CutPrefix(arg, short); ok && !strings.HasPrefix(arg, "--") {
		return strings.TrimPrefix(value, "="), 1
	}
	return "", 0
}

// options returns the arguments before "--", behind which stand no options.
func (l *launch) options() []string {
	if i := slices.Index(l.args, "--"); i >= 0 {
		return l.args[:i]
	}
	return l.args
}

// option returns the last value of an option on the command line, or "".
func (l *launch) option(short, long string) (last string) {
	args := l.options()
	for i := range args {
		if value, width := optionAt(args, i, short, long); width > 0 {
			last = value
		}
	}
	return last
}

// codexSettings returns the strings in Codex's configuration, in its profile and on its command line.
func (l *launch) codexSettings() codexSettings {
	found, from := codexSettings{}, l.surroundings()
	// Codex itself reports damaged files.
	_ = found.read(from.codexFile("config.toml"))
	if profile := l.option("-p", "--profile"); profile != "" {
		found["profile"] = profile
		_ = found.read(from.codexFile(profile + ".config.toml"))
	}
	args := l.options()
	for i := range args {
		if name, value, width := codexOverride(args, i); width > 0 {
			found.override(name, value)
		}
	}
	return found
}

// codexOverride returns the setting in an option -c, and the number of its arguments.
func codexOverride(args []string, i int) (name, value string, width int) {
	setting, width := optionAt(args, i, "-c", "--config")
	name, value, ok := strings.Cut(setting, "=")
	if !ok {
		return "", "", 0
	}
	return strings.TrimSpace(name), strings.TrimSpace(value), width
}

// codexElsewhere looks for providers that no setting on the command line leads to another address.
func codexElsewhere(l *launch, site bool) string {
	settings := l.codexSettings()
	profile := settings["profile"]
	if p := settings["profiles."+profile+".model_provider"]; p != "" {
		// Before version 0.169, profiles override the command line.
		return fmt.Sprintf("the profile %s has model_provider = %q: take the line out of it", profile, p)
	}
	if slices.Contains(l.options(), "--oss") {
		return "--oss asks a model on this machine: leave it out"
	}
	if p, defined := settings.provider(); p != "openai" && !defined && !site {
		return fmt.Sprintf("its model_provider is %s, whose address cannot be set: choose another one, or name a site by --url", p)
	}
	return ""
}

func codexBase(l *launch) string {
	settings := l.codexSettings()
	if p, defined := settings.provider(); defined {
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
	if p, defined := l.codexSettings().provider(); defined {
		// The provider keeps its key and headers. Only the address changes.
		address := "model_providers." + p + ".base_url"
		add, replaced = []string{"-c", fmt.Sprintf("%s=%q", address, to.base)}, []string{address}
	}
	args, end := slices.Clone(add), len(l.options())
	for i := 0; i < end; i++ {
		name, _, width := codexOverride(l.args[:end], i)
		if slices.Contains(replaced, name) {
			i += width - 1
			continue
		}
		args = append(args, l.args[i:i+max(1, width)]...)
		i += max(0, width-1)
		if width > 0 && strings.HasPrefix(replaced[0], name+".") {
			args = append(args, add...) // the last setting wins, and this one has the whole table
		}
	}
	l.args = append(args, l.args[end:]...)
}

// opencodeSetting returns a setting of opencode's configurations, "" if none has it.
func opencodeSetting(l *launch, path string) string {
	for _, config := range l.surroundings().opencodeConfigs() {
		if value := gjson.Get(config.text, path).String(); value != "" {
			return value
		}
	}
	return ""
}

func opencodeElsewhere(l *launch, site bool) string {
	model := cmp.Or(l.option("-m", "--model"), opencodeSetting(l, "model"))
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
	_ = json.Unmarshal([]byte(withoutComments(l.getenv(opencodeContent))), &config)
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

func geminiElsewhere(l *launch, _ bool) string { return l.surroundings().geminiElsewhere() }

func geminiBase(l *launch) string { return l.surroundings().geminiEnv(geminiVariable) }

func setGemini(l *launch, to target) { l.setenv(geminiVariable, to.base) }
