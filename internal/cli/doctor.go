// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

// Doctor looks for faults that keep llm_cache from working: in a configuration, at its upstreams,
// and in the settings of clients. It ends with a verdict on each client.

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/routes"
)

// Patient is the subject of an examination.
type Patient struct {
	// Config is the configuration in JSON, empty for none.
	Config []byte
	// File is the name of the Caddyfile that the configuration comes from, and Text its content; empty for none.
	File string
	Text []byte
	// Getenv reads the clients' environment.
	Getenv func(name string) string
	// Home is the folder with the clients' settings, Dir the folder of a project, "" for none.
	Home, Dir string
	// Managed is the file of Claude Code's managed settings, empty for none.
	Managed string
	// Offline skips all checks that need connections.
	Offline bool
	// Transport sends requests. Default: [http.DefaultTransport].
	Transport http.RoundTripper
	// Now is the clock. Default: [time.Now].
	Now func() time.Time
}

// Finding is a fault, present or to come.
type Finding struct {
	// About names the subject, such as "site" or "Claude Code".
	About string `json:"about"`
	// The fault, and its remedy.
	What string `json:"what"`
	// Note marks a finding that may be intended. The command does not fail for it.
	Note bool `json:"note,omitempty"`
}

// Examination is the result of all checks.
type Examination struct {
	// Looked names the subjects, and Skipped those that could not be looked at, with the reason.
	Looked  []string `json:"looked"`
	Skipped []string `json:"skipped"`
	// Findings are the faults.
	Findings []Finding `json:"findings"`
	// Verdicts tell the way of each client's requests.
	Verdicts []string `json:"verdicts"`
}

// check looks at one subject.
type check struct {
	subject string
	needs   need
	look    func(*exam, context.Context)
}

// need is a condition of a check.
type need int

const (
	configuration need = 1 << iota
	connections
)

// checks are all checks, in order. Those of the sites' routes are in [routes.Examine]; `caddy validate` makes them, too.
var checks = []check{
	{"the variables of the Caddyfile", configuration, (*exam).variables},
	{"the sites", configuration, (*exam).sites},
	{"the admin API", configuration, (*exam).adminOff},
	{"the audit store", configuration, (*exam).auditStore},
	{"Claude Code", 0, (*exam).claudeCode},
	{"Codex", 0, (*exam).codex},
	{"opencode", 0, (*exam).opencode},
	{"Gemini CLI", 0, (*exam).gemini},
	{"SDKs", 0, (*exam).sdks},
	{"the clients' ways through the sites", configuration, (*exam).ways},
	{"the upstreams", configuration | connections, (*exam).upstreams},
	{"the clients' base URLs", connections, (*exam).baseURLs},
	{"the running Caddy", connections, (*exam).running},
}

// exam is an examination in progress.
type exam struct {
	Patient
	Examination
	http    *http.Client
	root    gjson.Result                 // the configuration
	servers map[string]*caddyhttp.Server // its servers
	report  routes.Report                // on them
	clients []*route                     // of those that have a base URL
	today   []*audit.Sum                 // the turns by client, of the running Caddy
	runs    bool                         // a Caddy with llm_cache runs
}

// patience bounds each connection.
const patience = 5 * time.Second

// Examine makes all checks.
func Examine(ctx context.Context, p Patient) Examination {
	if p.Now == nil {
		p.Now = time.Now
	}
	e := &exam{
		Patient: p, Examination: Examination{Looked: []string{}, Skipped: []string{}, Findings: []Finding{}},
		root: gjson.ParseBytes(p.Config),
		http: &http.Client{
			Timeout: patience, Transport: p.Transport,
			// A redirect is a finding: clients send no body after it.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	for _, c := range checks {
		switch {
		case c.needs&configuration != 0 && len(p.Config) == 0:
			e.skip(c.subject, "no configuration is here: name one by --config")
		case c.needs&connections != 0 && p.Offline:
			e.skip(c.subject, "--offline")
		default:
			c.look(e, ctx)
		}
	}
	e.Verdicts = e.verdicts()
	return e.Examination
}

// userinfo matches the user and password in URLs.
var userinfo = regexp.MustCompile(`(//)[^/@\s"]+@|[^/@\s"]+:[^/@\s"]+@`)

func say(what string, args ...any) string {
	// Findings are shown to others for help, and base URLs and proxies may have passwords.
	return userinfo.ReplaceAllString(fmt.Sprintf(what, args...), "${1}xxxxx@")
}

func (e *exam) look(what string, args ...any) { e.Looked = append(e.Looked, say(what, args...)) }

func (e *exam) skip(subject, why string) { e.Skipped = append(e.Skipped, say("%s: %s", subject, why)) }

func (e *exam) find(about, what string, args ...any) {
	e.Findings = append(e.Findings, Finding{About: about, What: say(what, args...)})
}

// note records a finding that may be intended.
func (e *exam) note(about, what string, args ...any) {
	e.Findings = append(e.Findings, Finding{About: about, What: say(what, args...), Note: true})
}

// Faults counts the findings that are not notes.
func (x *Examination) Faults() (n int) {
	for _, f := range x.Findings {
		if !f.Note {
			n++
		}
	}
	return n
}

// Write writes the result as text.
func (x *Examination) Write(w io.Writer) error {
	for _, l := range x.Looked {
		fmt.Fprintf(w, "looked at %s\n", l)
	}
	for _, s := range x.Skipped {
		fmt.Fprintf(w, "did not look at %s\n", s)
	}
	for _, f := range x.Findings {
		mark := "✗"
		if f.Note {
			mark = "·"
		}
		fmt.Fprintf(w, "\n%s %s: %s\n", mark, f.About, f.What)
	}
	count, faults := "\nNothing found.\n\n", x.Faults()
	if notes := len(x.Findings) - faults; len(x.Findings) > 0 {
		count = fmt.Sprintf("\nFaults: %d. Notes, which may be meant so: %d.\n\n", faults, notes)
	}
	_, err := io.WriteString(w, count)
	for _, v := range x.Verdicts {
		_, wrong := fmt.Fprintln(w, v)
		err = cmp.Or(err, wrong)
	}
	return err
}
