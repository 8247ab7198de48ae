// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

// Doctor looks for faults that keep llm_cache from working: in a configuration, at its upstreams,
// and in the settings of clients.

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// Patient is the subject of an examination.
type Patient struct {
	// Config is the configuration in JSON, empty for none.
	Config []byte
	// Getenv reads the clients' environment.
	Getenv func(name string) string
	// Home is the folder with the clients' settings.
	Home string
	// Offline skips all checks that need connections.
	Offline bool
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

type exam struct {
	Patient
	client     *http.Client
	findings   []Finding
	looked     []string
	configured bool                   // a client has a base URL
	listen     []caddy.NetworkAddress // of the sites
}

// patience bounds each connection.
const patience = 5 * time.Second

// Examine examines everything. It returns the subjects and the findings.
func Examine(ctx context.Context, p Patient) (looked []string, findings []Finding) {
	if p.Now == nil {
		p.Now = time.Now
	}
	e := &exam{Patient: p, client: &http.Client{
		Timeout: patience,
		// A redirect is a finding: clients send no body after it.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if len(p.Config) > 0 {
		e.config(ctx)
	}
	e.clients(ctx)
	return e.looked, e.findings
}

// userinfo matches the user and password in URLs.
var userinfo = regexp.MustCompile(`(//)[^/@\s"]+@|[^/@\s"]+:[^/@\s"]+@`)

func say(what string, args ...any) string {
	// Findings are shown to others for help, and base URLs and proxies may have passwords.
	return userinfo.ReplaceAllString(fmt.Sprintf(what, args...), "${1}xxxxx@")
}

func (e *exam) look(what string, args ...any) { e.looked = append(e.looked, say(what, args...)) }

func (e *exam) find(about, what string, args ...any) {
	e.findings = append(e.findings, Finding{About: about, What: say(what, args...)})
}

// note records a finding that may be intended.
func (e *exam) note(about, what string, args ...any) {
	e.findings = append(e.findings, Finding{About: about, What: say(what, args...), Note: true})
}

func faults(findings []Finding) int {
	n := 0
	for _, f := range findings {
		if !f.Note {
			n++
		}
	}
	return n
}

// WriteFindings writes the result as text.
func WriteFindings(w io.Writer, looked []string, findings []Finding) error {
	for _, l := range looked {
		fmt.Fprintf(w, "looked at %s\n", l)
	}
	for _, f := range findings {
		mark := "✗"
		if f.Note {
			mark = "·"
		}
		fmt.Fprintf(w, "\n%s %s: %s\n", mark, f.About, f.What)
	}
	verdict := "\nNothing found.\n"
	if n := faults(findings); n > 0 {
		verdict = fmt.Sprintf("\n%d found.\n", n)
	}
	_, err := io.WriteString(w, verdict)
	return err
}
