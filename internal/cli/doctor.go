// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

// Doctor looks for what keeps llm_cache from working: in a configuration,
// in what stands behind it, and in the settings of the clients.

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// Patient is what is examined.
type Patient struct {
	// Config is the configuration in JSON, empty where there is none to examine.
	Config []byte
	// Getenv reads the environment in which the clients are started.
	Getenv func(name string) string
	// Home is the folder in which the clients keep their settings.
	Home string
	// Offline leaves out what takes connections.
	Offline bool
	// Now is the clock. Default: [time.Now].
	Now func() time.Time
}

// Finding is something that does not work, or will not.
type Finding struct {
	// About names what was examined, such as "site" or "Claude Code".
	About string `json:"about"`
	// What is wrong, and what to do.
	What string `json:"what"`
	// Note tells of a finding that may be meant so. The command does not fail for it.
	Note bool `json:"note,omitempty"`
}

// exam collects what is found.
type exam struct {
	Patient
	client   *http.Client
	findings []Finding
	looked   []string
	told     bool                   // a client has been told a base URL
	listen   []caddy.NetworkAddress // of the sites
}

// patience bounds each connection.
const patience = 5 * time.Second

// Examine looks at everything and returns what was examined and what is wrong.
func Examine(ctx context.Context, p Patient) (looked []string, findings []Finding) {
	if p.Now == nil {
		p.Now = time.Now
	}
	e := &exam{Patient: p, client: &http.Client{
		Timeout: patience,
		// A redirect is something to tell: clients send no body after it.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if len(p.Config) > 0 {
		e.config(ctx)
	}
	e.clients(ctx)
	return e.looked, e.findings
}

// userinfo is what stands before the host in a URL. What is found is shown to others who may
// help, and base URLs and proxies have passwords in them.
var userinfo = regexp.MustCompile(`(//)[^/@\s"]+@|[^/@\s"]+:[^/@\s"]+@`)

func say(what string, args ...any) string {
	return userinfo.ReplaceAllString(fmt.Sprintf(what, args...), "${1}xxxxx@")
}

// look notes that something has been examined.
func (e *exam) look(what string, args ...any) { e.looked = append(e.looked, say(what, args...)) }

// find notes that something is wrong.
func (e *exam) find(about, what string, args ...any) {
	e.findings = append(e.findings, Finding{About: about, What: say(what, args...)})
}

// note notes something that may be meant so.
func (e *exam) note(about, what string, args ...any) {
	e.findings = append(e.findings, Finding{About: about, What: say(what, args...), Note: true})
}

// faults counts the findings that are no notes.
func faults(findings []Finding) int {
	n := 0
	for _, f := range findings {
		if !f.Note {
			n++
		}
	}
	return n
}

// WriteFindings writes the result for people.
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
