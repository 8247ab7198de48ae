// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/routes"
)

// LoadConfig reads a configuration into the patient, a Caddyfile or JSON.
func (p *Patient) LoadConfig(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("doctor: %w", err)
	}
	if strings.EqualFold(filepath.Ext(path), ".json") {
		if !json.Valid(raw) {
			return fmt.Errorf("doctor: %s is no valid JSON", path)
		}
		p.Config = raw
		return nil
	}
	adapter := caddyconfig.GetAdapter("caddyfile")
	if adapter == nil {
		return fmt.Errorf("doctor: this Caddy reads no Caddyfiles")
	}
	p.File, p.Text = path, raw
	if p.Config, _, err = adapter.Adapt(raw, map[string]any{"filename": path}); err != nil {
		return fmt.Errorf("doctor: %w%s", err, remedy(err.Error()))
	}
	return nil
}

// directives are the names of our directives.
var directives = []string{"llm_cache", "llm_cache_dashboard", "llm_cache_origin"}

// unrecognized matches two errors of Caddy.
var unrecognized = regexp.MustCompile(`unrecognized (directive|global option): (\S+)`)

// remedy completes an error of Caddy, where its cause is known.
func remedy(text string) string {
	m := unrecognized.FindStringSubmatch(text)
	switch {
	case m == nil:
	case m[1] == "directive":
		if near := option.Nearest(m[2], directives); near != "" {
			return "; did you mean " + near + "?"
		}
	case strings.ContainsAny(m[2], ":."): // the address of a site
		return "; a } is missing before it: each { needs one"
	}
	return ""
}

// variable matches a variable without a default.
var variable = regexp.MustCompile(`\{\$([^:}]+)\}`)

// variables looks for variables of the Caddyfile that are not set. Caddy replaces them before it parses, so that
// nothing of them is left in the configuration.
func (e *exam) variables(context.Context) {
	lines := map[string][]string{}
	var names []string
	tokens, _ := caddyfile.Tokenize(bytes.Clone(e.Text), e.File) // the adapter has reported errors
	for _, token := range tokens {
		for _, m := range variable.FindAllStringSubmatch(token.Text, -1) {
			if os.Getenv(m[1]) == "" {
				if lines[m[1]] == nil {
					names = append(names, m[1])
				}
				if line := fmt.Sprint(token.Line); !slices.Contains(lines[m[1]], line) {
					lines[m[1]] = append(lines[m[1]], line)
				}
			}
		}
		if token.Text == "import" {
			e.skip("variables in imported files", "only the file itself is read for them")
		}
	}
	for _, name := range names {
		e.note(filepath.Base(e.File), "{$%s} is not set here, and stands for nothing in line %s. Set it where Caddy runs, or write a "+
			"default: {$%[1]s:…}.", name, strings.Join(lines[name], ", "))
	}
}

// sites makes the checks that `caddy validate` makes, too.
func (e *exam) sites(context.Context) {
	servers := e.root.Get("apps.http.servers")
	servers.ForEach(func(name, _ gjson.Result) bool {
		e.look("server %s of the configuration", name.String())
		return true
	})
	if err := json.Unmarshal([]byte(servers.Raw), &e.servers); servers.Raw != "" && err != nil {
		e.find("configuration", "the servers cannot be read: %v", err)
		return
	}
	e.report = routes.Examine(e.servers)
	if len(e.report.Caches) == 0 && !strings.Contains(servers.Raw, `"handler":"llm_cache_origin"`) {
		e.find("configuration", "no site has llm_cache: put it into the site, in front of reverse_proxy.")
	}
	for _, f := range e.report.Findings {
		what := f.Message
		if about := slices.DeleteFunc(append([]string{f.Handler}, f.Paths...),
			func(s string) bool { return s == "" }); len(about) > 0 {
			what += " (" + strings.Join(about, ", ") + ")"
		}
		what += ". " + strings.ToUpper(f.Remedy[:1]) + f.Remedy[1:] + "."
		e.Findings = append(e.Findings, Finding{About: cmp.Or(f.Site, "site"), What: say("%s", what), Note: f.Note})
	}
}

func (e *exam) adminOff(context.Context) {
	if e.root.Get("admin.disabled").Bool() {
		e.find("configuration",
			"admin off: statusline, and the admin API of llm_cache, cannot be asked. Leave it on at its local address.")
	}
}

// addresses returns the addresses behind the sites with llm_cache, once each.
func (e *exam) addresses() (all []routes.Upstream) {
	for _, cache := range e.report.Caches {
		for _, h := range cache.Behind {
			for _, u := range h.Upstreams() {
				if !slices.Contains(all, u) {
					all = append(all, u)
				}
			}
		}
	}
	return all
}

func (e *exam) auditStore(context.Context) {
	a := e.root.Get("apps.llm_cache.audit")
	path := cmp.Or(a.Get("path").String(), a.Get("writer.filename").String())
	if path == "" {
		return
	}
	if strings.Contains(path, "{") {
		e.skip("the audit store "+path, "its path has a placeholder")
		return
	}
	e.look("the audit store %s", path)
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	if err != nil && os.IsNotExist(err) {
		// Missing folders are created if an existing parent is writable.
		for os.IsNotExist(err) && dir != filepath.Dir(dir) {
			dir = filepath.Dir(dir)
			info, err = os.Stat(dir)
		}
	}
	if err != nil || !info.IsDir() {
		e.find("audit", "%s is no folder: nothing can be recorded in %s.", dir, path)
		return
	}
	probe, err := os.CreateTemp(dir, ".llm-cache-doctor-*")
	if err != nil {
		e.find("audit", "%s cannot be written: %v", dir, err)
		return
	}
	_ = probe.Close()
	_ = os.Remove(probe.Name())
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		e.find("audit", "%s is a folder; the path of a file is wanted.", path)
		return
	} else if err != nil || a.Get("module").String() != "sqlite" {
		return
	}
	switch err := audit.CheckSQLite(path); {
	case err == nil, audit.ReasonOf(err) == audit.ReasonLocked:
	case audit.ReasonOf(err) == audit.ReasonDamaged:
		e.find("audit", "%v. Caddy sets it aside when it starts, and begins a new one.", err)
	default:
		e.find("audit", "%v. Records are kept in memory, and are lost when Caddy ends: name another file.", err)
	}
}
