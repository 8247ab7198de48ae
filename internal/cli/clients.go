// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddyserver/caddy/v2"
)

func (e *exam) clients(ctx context.Context) {
	e.claudeCode(ctx)
	e.codex(ctx)
	e.opencode(ctx)
	e.gemini(ctx)
	for _, name := range [...]string{"OPENAI_BASE_URL", "ANTHROPIC_VERTEX_BASE_URL", "ANTHROPIC_BEDROCK_BASE_URL"} {
		e.configured = e.configured || e.Getenv(name) != ""
	}
	if !e.configured {
		e.note("clients",
			"no client on this machine goes through llm_cache: ANTHROPIC_BASE_URL and GOOGLE_GEMINI_BASE_URL are not set, "+
				"and the settings of Claude Code, Codex and opencode name no base URL. Set one to the address of a site, or "+
				"start the client by caddy llm-cache wrap claude.")
	}
}

// away notes a base URL on this machine without a listening site of the configuration.
func (e *exam) away(about, name, value string, u *url.URL) {
	port, err := strconv.ParseUint(cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]), 10, 16)
	ip := net.ParseIP(u.Hostname())
	if err != nil || len(e.listen) == 0 || u.Hostname() != "localhost" && !ip.IsLoopback() {
		return
	}
	if !slices.ContainsFunc(e.listen, func(a caddy.NetworkAddress) bool {
		return uint64(a.StartPort) <= port &&
			port <= uint64(a.EndPort)
	}) {
		e.note(about, "%s is %s, and no site of the configuration listens there.", name, value)
	}
}

// baseURL examines a base URL, with the version if versioned, and reports whether to try it.
func (e *exam) baseURL(about, name, value, version string, versioned bool) bool {
	e.configured = true
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
	for _, host := range hosted {
		if u.Hostname() == host {
			e.find(about, "%s is %s: requests pass llm_cache by.", name, value)
			return false
		}
	}
	e.away(about, name, value, u)
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

func on(value string) bool { return value != "" && value != "0" && value != "false" }

func (e *exam) claudeCode(ctx context.Context) {
	const about = "Claude Code"
	env := func(name string) string { return e.Getenv(name) }
	path := filepath.Join(cmp.Or(e.Getenv("CLAUDE_CONFIG_DIR"), filepath.Join(e.Home, ".claude")), "settings.json")
	if raw, err := os.ReadFile(path); err == nil {
		e.look("%s", path)
		if !json.Valid(raw) {
			e.find(about, "%s is no valid JSON, and is not used.", path)
		} else {
			settings := gjson.GetBytes(raw, "env")
			// Claude Code's settings override the environment.
			env = func(name string) string {
				if v := settings.Get(name); v.Exists() {
					return v.String()
				}
				return e.Getenv(name)
			}
			const name = "ANTHROPIC_BASE_URL"
			if there := settings.Get(name).String(); there != "" && e.Getenv(name) != "" && there != e.Getenv(name) {
				e.find(about, "%s says %s=%s, which goes before %s of the environment.", path, name, there, e.Getenv(name))
			}
		}
	}
	base := env("ANTHROPIC_BASE_URL")
	for _, other := range []string{"CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"} {
		if base != "" && on(env(other)) {
			e.find(about, "%s is set: ANTHROPIC_BASE_URL is not used.", other)
		}
	}
	if on(env("DISABLE_PROMPT_CACHING")) {
		e.find(about, "DISABLE_PROMPT_CACHING is set: no request asks for the cache, and each is paid in full.")
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
	e.base(ctx, about, base, "/v1/models", credential)
}

// tomlString matches the relevant settings in Codex's configuration: tables, and lines of a name
// and a string.
var tomlString = regexp.MustCompile(`(?m)^\s*(\[[^\]]*\]|[a-z_]+\s*=\s*["'][^"'\n]*["'])`)

func (e *exam) codex(ctx context.Context) {
	const about = "Codex"
	path := filepath.Join(cmp.Or(e.Getenv("CODEX_HOME"), filepath.Join(e.Home, ".codex")), "config.toml")
	raw, err := os.ReadFile(path)
	if err != nil {
		return
	}
	e.look("%s", path)
	section, chosen, defined := "", "", []string{}
	for _, m := range tomlString.FindAllStringSubmatch(string(raw), -1) {
		if strings.HasPrefix(m[1], "[") {
			section = strings.Trim(m[1], "[]")
			if name, ok := strings.CutPrefix(section, "model_providers."); ok {
				defined = append(defined, strings.Trim(name, `"'`))
			}
			continue
		}
		name, value, _ := strings.Cut(m[1], "=")
		name, value = strings.TrimSpace(name), strings.Trim(strings.TrimSpace(value), `"'`)
		switch {
		case section == "" && name == "model_provider":
			chosen = value
		case name == "wire_api" && value == "chat":
			e.find(about, `%s says wire_api = "chat", which Codex has given up. Write "responses"; llm_cache translates.`, path)
		case name == "base_url" || name == "openai_base_url":
			if e.baseURL(about, name+" in "+path, value, "v1", true) {
				e.base(ctx, about, value, "/models", nil)
			}
		}
	}
	if len(defined) > 0 && chosen == "" {
		e.find(about, "%s has the provider %s and does not choose it. Write model_provider = %q at the top.", path,
			defined[0], defined[0])
	} else if len(defined) > 0 && chosen != "openai" && !slices.Contains(defined, chosen) {
		e.find(about, "%s chooses the provider %s, which it does not have.", path, chosen)
	}
}

func (e *exam) opencode(ctx context.Context) {
	const about = "opencode"
	path := filepath.Join(e.Home, ".config", "opencode", "opencode.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		return
	}
	e.look("%s", path)
	if !json.Valid(raw) {
		e.find(about, "%s is no valid JSON.", path)
		return
	}
	gjson.GetBytes(raw, "provider").ForEach(func(name, p gjson.Result) bool {
		base := p.Get("options.baseURL").String()
		version := "v1"
		if name.String() == "google" {
			version = "v1beta"
		}
		if base != "" && e.baseURL(about, "baseURL of "+name.String()+" in "+path, base, version, true) {
			e.base(ctx, about, base, "/models", nil)
		}
		return true
	})
}

func (e *exam) gemini(ctx context.Context) {
	const about, name = "Gemini CLI", "GOOGLE_GEMINI_BASE_URL"
	base := e.Getenv(name)
	if base == "" {
		return
	}
	if on(e.Getenv("GOOGLE_GENAI_USE_VERTEXAI")) {
		e.find(about, "GOOGLE_GENAI_USE_VERTEXAI is set: %s is not used.", name)
		return
	}
	if e.baseURL(about, name, base, "v1beta", false) {
		e.base(ctx, about, base, "/v1beta/models", nil)
	}
}
