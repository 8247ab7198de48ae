// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/routes"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// baseURL examines a base URL, with the version if versioned, and reports whether it can be used.
func (e *exam) baseURL(about, name, value, version string, versioned bool) bool {
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		e.find(about, "%s is %q, which is no URL. It begins with http:// or https://.", name, value)
		return false
	}
	// The client appends a path, of which the version may be the first part.
	path := strings.TrimSuffix(u.Path, "/")
	switch has := strings.HasSuffix(path, "/"+version); {
	case strings.HasSuffix(path, "/"+version+"/"+version):
		e.find(about, "%s is %s: /%s stands there twice.", name, value, version)
		return false
	case has && !versioned:
		e.find(about, "%s is %s: the client adds /%s itself, so that requests go to /%[3]s/%[3]s. Take it away.", name,
			value, version)
		return false
	case !has && versioned:
		e.find(about, "%s is %s: the client adds no /%s. Put it behind.", name, value, version)
		return false
	}
	if upstream.PresetAt(u.Host) != "" || slices.ContainsFunc(e.addresses(), func(up routes.Upstream) bool {
		return sameAddress(u, up.Dial)
	}) {
		e.find(about, "%s is %s, the upstream itself: requests pass llm_cache by. Write %s.", name, value,
			e.example(path))
		return false
	}
	e.proxied(about, u)
	return true
}

func (e *exam) proxied(about string, u *url.URL) {
	name := strings.ToUpper(u.Scheme) + "_PROXY"
	proxy := e.Getenv(name)
	if proxy == "" {
		name = strings.ToLower(name)
		proxy = e.Getenv(name)
	}
	if proxy == "" {
		return
	}
	for no := range strings.SplitSeq(e.Getenv("NO_PROXY")+","+e.Getenv("no_proxy"), ",") {
		if no = strings.TrimPrefix(strings.TrimSpace(no), "."); no != "" &&
			(no == "*" || u.Hostname() == no || strings.HasSuffix(u.Hostname(), "."+no)) {
			return
		}
	}
	e.find(about, "%s sends requests to %s by way of %s. Put the host into NO_PROXY.", name, u.Hostname(), proxy)
}

// claudeSettings returns Claude Code's environment: its settings override that of the shell, and those of a project
// those of the user, and managed settings all others.
func (e *exam) claudeSettings() (env func(name string) string) {
	const about, base = "Claude Code", "ANTHROPIC_BASE_URL"
	files := []string{
		filepath.Join(cmp.Or(e.Getenv("CLAUDE_CONFIG_DIR"), filepath.Join(e.Home, ".claude")), "settings.json"),
	}
	if e.Dir != "" && e.Dir != e.Home {
		files = append(files, filepath.Join(e.Dir, ".claude", "settings.json"),
			filepath.Join(e.Dir, ".claude", "settings.local.json"))
	}
	env = e.Getenv
	for _, path := range append(files, e.Managed) {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		e.look("%s", path)
		if !json.Valid(raw) {
			e.find(about, "%s is no valid JSON, and is not used.", path)
			continue
		}
		settings, outer := gjson.GetBytes(raw, "env"), env
		env = func(name string) string {
			if v := settings.Get(name); v.Exists() {
				return v.String()
			}
			return outer(name)
		}
		if there := settings.Get(base).String(); there != "" && outer(base) != "" && there != outer(base) {
			e.find(about, "%s says %s=%s, which goes before %s of the environment. Change it there.", path, base, there,
				outer(base))
		}
	}
	return env
}

func (e *exam) claudeCode(context.Context) {
	const about = "Claude Code"
	env := e.claudeSettings()
	base := env("ANTHROPIC_BASE_URL")
	if claudeOn(env("DISABLE_PROMPT_CACHING")) {
		e.find(about, "DISABLE_PROMPT_CACHING is set: no request asks for the cache, and each is paid in full.")
	}
	for _, other := range claudeProviders {
		if base != "" && claudeOn(env(other)) {
			e.find(about, "%s is set: ANTHROPIC_BASE_URL is not used.", other)
			return
		}
	}
	if base == "" || !e.baseURL(about, "ANTHROPIC_BASE_URL", base, "v1", false) {
		return
	}
	credential := http.Header{}
	key, token := env("ANTHROPIC_API_KEY"), env("ANTHROPIC_AUTH_TOKEN")
	if key != "" && token != "" {
		e.find(about,
			"ANTHROPIC_API_KEY and ANTHROPIC_AUTH_TOKEN are both set: requests carry two credentials. Take one away.")
	}
	if key != "" {
		credential.Set("X-Api-Key", key)
		credential.Set("Anthropic-Version", "2023-06-01")
	} else if token != "" {
		credential.Set("Authorization", "Bearer "+token)
		credential.Set("Anthropic-Version", "2023-06-01")
	}
	e.clients = append(e.clients, &route{
		client: about, program: "claude-code", setting: "ANTHROPIC_BASE_URL", base: base, models: "/v1/models",
		prompt: "/v1/messages", format: wire.Anthropic, credential: credential,
	})
}

func (e *exam) codex(context.Context) {
	const about = "Codex"
	settings, path := codexSettings{}, e.surroundings().codexFile("config.toml")
	err := settings.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	e.look("%s", path)
	if err != nil {
		e.find(about, "%s cannot be read: %v", path, err)
		return
	}
	chosen, defined := settings.provider()
	setting, base := "openai_base_url", settings["openai_base_url"]
	switch {
	case defined:
		setting, base = "base_url", settings["model_providers."+chosen+".base_url"]
		if settings["model_providers."+chosen+".wire_api"] == "chat" {
			e.find(about, `%s says wire_api = "chat", which Codex has given up. Write "responses"; llm_cache translates.`, path)
		}
	case !slices.Contains(codexProvided, chosen):
		e.find(about, "%s chooses the provider %s, which it does not have.", path, chosen)
		return
	case chosen != "openai":
		return // its address cannot be set
	case base == "" && settings["model_provider"] == "" && len(settings.providers()) > 0:
		first := settings.providers()[0]
		e.find(about, "%s has the provider %s and does not choose it. Write model_provider = %[2]q at the top.", path, first)
	}
	if base != "" && e.baseURL(about, setting+" in "+path, base, "v1", true) {
		e.clients = append(e.clients, &route{
			client: about, program: "codex", setting: setting + " in " + path, base: base, models: "/models",
			prompt: "/responses", format: wire.OpenAIResponses,
		})
	}
}

func (e *exam) opencode(context.Context) {
	const about = "opencode"
	found := map[string]bool{}
	for _, config := range e.surroundings().opencodeConfigs() {
		e.look("%s", config.from)
		if !json.Valid([]byte(config.text)) {
			e.find(about, "%s is no valid JSON.", config.from)
			continue
		}
		gjson.Get(config.text, "provider").ForEach(func(name, p gjson.Result) bool {
			base := p.Get("options.baseURL").String()
			if base == "" || found[name.String()] {
				return true
			}
			found[name.String()] = true
			r := &route{
				client: about, program: "opencode", setting: "baseURL of " + name.String() + " in " + config.from,
				base: base, models: "/models", prompt: "/chat/completions", format: wire.OpenAIChat,
			}
			version := "v1"
			switch name.String() {
			case "anthropic":
				r.prompt, r.format = "/messages", wire.Anthropic
			case "openai":
				r.prompt, r.format = "/responses", wire.OpenAIResponses
			case "google":
				version, r.prompt, r.format = "v1beta", "/models/m:generateContent", wire.Gemini
			}
			if e.baseURL(about, r.setting, r.base, version, true) {
				e.clients = append(e.clients, r)
			}
			return true
		})
	}
}

func (e *exam) gemini(context.Context) {
	const about = "Gemini CLI"
	base := e.surroundings().geminiEnv(geminiVariable)
	if base == "" {
		return
	}
	if why := e.surroundings().geminiElsewhere(); why != "" {
		e.find(about, "%s is not used, because %s.", geminiVariable, why)
		return
	}
	if e.baseURL(about, geminiVariable, base, "v1beta", false) {
		e.clients = append(e.clients, &route{
			client: about, program: "gemini-cli", setting: geminiVariable, base: base, models: "/v1beta/models",
			prompt: "/v1beta/models/m:generateContent", format: wire.Gemini,
		})
	}
}

// sdks looks for base URLs of other programs.
func (e *exam) sdks(context.Context) {
	const name = "OPENAI_BASE_URL"
	if base := e.Getenv(name); base != "" && e.baseURL("OpenAI SDK", name, base, "v1", true) {
		e.clients = append(e.clients, &route{
			client: "OpenAI SDK", program: "openai-sdk", setting: name, base: base, models: "/models",
			prompt: "/chat/completions", format: wire.OpenAIChat,
		})
	}
	for _, name := range [...]string{"ANTHROPIC_VERTEX_BASE_URL", "ANTHROPIC_BEDROCK_BASE_URL"} {
		if base := e.Getenv(name); base != "" {
			e.skip(name, base+" takes signed requests only")
		}
	}
}
