// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/page"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/version"
)

const skew = 5 * time.Minute

// upstreams asks the sites' upstreams for their models, without a credential.
func (e *exam) upstreams(ctx context.Context) {
	for _, u := range e.addresses() {
		if strings.ContainsAny(u.Dial, "{/") { // a placeholder, or a socket
			e.skip("the upstream "+u.Dial, "only addresses of hosts are tried")
			continue
		}
		e.look("the upstream %s", u.Dial)
		url := "http://" + u.Dial
		if u.TLS {
			url = "https://" + u.Dial
		}
		a, err := e.ask(ctx, http.MethodGet, url+"/v1/models", nil)
		switch {
		case err != nil:
			e.find("upstream", "%s does not answer: %s. Start it, or correct the address.", u.Dial, reason(err))
		case a.empty:
			e.find("upstream", "%s answers 200 with nothing: it is no model, but for example a Caddy without a site for this "+
				"address. Correct the address behind reverse_proxy.", u.Dial)
		default:
			e.clock(u.Dial, a.header)
		}
	}
}

// baseURLs asks the clients' base URLs for the models, with the client's credential.
func (e *exam) baseURLs(ctx context.Context) {
	for _, r := range e.clients {
		e.base(ctx, r)
		if r.through == unknown && r.reached {
			// The refusal of an empty request tells whether llm_cache has seen it.
			a, err := e.ask(ctx, http.MethodPost, strings.TrimSuffix(r.base, "/")+r.prompt, r.credential)
			if err == nil {
				r.through = past
				for name := range a.header {
					if strings.HasPrefix(name, "X-Llm-Cache") {
						r.through = through
					}
				}
			}
		}
	}
}

func (e *exam) base(ctx context.Context, r *route) {
	about, url := r.client, r.base
	e.look("%s, where %s goes", url, about)
	a, err := e.ask(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+r.models, r.credential)
	if err != nil {
		var stranger x509.UnknownAuthorityError
		var invalid x509.CertificateInvalidError
		var name x509.HostnameError
		var other *tls.CertificateVerificationError
		switch {
		case errors.As(err, &stranger):
			e.find(about,
				"the certificate of %s is signed by an authority that is not known here. Run caddy trust, and give Node.js the "+
					"root: NODE_EXTRA_CA_CERTS.", url)
		case errors.As(err, &invalid), errors.As(err, &name), errors.As(err, &other):
			e.find(about, "the certificate of %s does not hold: %s", url, reason(err))
		default:
			e.find(about, "%s cannot be reached: %s", url, reason(err))
		}
		return
	}
	if a.status == http.StatusBadRequest && strings.Contains(a.begins, "HTTP request to an HTTPS server") {
		r.through = unknown
		e.find(about, "%s takes TLS only. Write https://.", url)
		return
	}
	r.reached = true
	switch {
	case a.empty:
		e.find(about, "%s answers 200 with nothing: no site has this address, or nothing answers in it.", url)
	case a.status >= 300 && a.status < 400:
		e.find(about, "%s redirects to %s, and requests lose their bodies on the way. Use that address.", url,
			a.header.Get("Location"))
	case a.status == http.StatusUnauthorized && len(r.credential) > 0:
		e.find(about, "%s refuses the key (401).", url)
	case a.status >= 502 && a.status <= 504:
		e.find(about, "%s answers %d: what stands behind it cannot be reached.", url, a.status)
	}
	e.clock(url, a.header)
}

// running asks a running Caddy, if any, for the edits that upstreams refused, and for today's turns.
func (e *exam) running(ctx context.Context) {
	admin := cmp.Or(e.root.Get("admin.listen").String(), caddy.DefaultAdminListen)
	if e.root.Get("admin.disabled").Bool() || strings.Contains(admin, "/") { // a socket
		e.skip("the running Caddy", "its admin API is off, or a socket")
		return
	}
	metrics, err := e.read(ctx, "http://"+admin+"/metrics")
	if err != nil {
		e.skip("the running Caddy and the day's requests", "no Caddy answers at "+admin)
		return
	}
	counts := map[string]float64{}
	for line := range strings.Lines(string(metrics)) {
		if rest, ok := strings.CutPrefix(line, `caddy_llm_cache_resends_total{outcome="`); ok {
			outcome, value, _ := strings.Cut(strings.TrimSpace(rest), `"} `)
			counts[outcome], _ = strconv.ParseFloat(value, 64)
		}
	}
	if len(counts) > 0 {
		e.look("what upstreams have refused, at %s: %.0f requests were accepted without our edits, %.0f were refused again",
			admin, counts["accepted"], counts["refused"])
	}
	if n := counts["accepted"]; n > 0 {
		e.find("edits",
			"upstreams have refused %.0f requests with our edits and accepted them without. The page says which kinds of "+
				"edits under Edits: switch those off in the site (expand off, breakpoints off).", n)
	}
	var view page.View
	if raw, err := e.read(ctx, "http://"+admin+"/llm_cache/data"); err == nil && json.Unmarshal(raw, &view) == nil {
		e.runs, e.today = true, view.Today.Of("client")
	}
}

// read returns the body of a GET request that succeeds.
func (e *exam) read(ctx context.Context, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", version.Agent())
	answer, err := e.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", answer.StatusCode)
	}
	return io.ReadAll(io.LimitReader(answer.Body, 16<<20))
}

// response is the response to a trial.
type response struct {
	status int
	header http.Header
	empty  bool   // status 200 without a body
	begins string // the beginning of the body
}

// ask sends a GET request, or a POST of an empty object.
func (e *exam) ask(ctx context.Context, method, url string, credential http.Header) (a response, err error) {
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader("{}")
	}
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return a, err
	}
	maps.Copy(r.Header, credential)
	r.Header.Set("User-Agent", version.Agent())
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	got, err := e.http.Do(r)
	if err != nil {
		return a, err
	}
	defer got.Body.Close()
	begins, _ := io.ReadAll(io.LimitReader(got.Body, 64))
	return response{got.StatusCode, got.Header, got.StatusCode == http.StatusOK && len(begins) == 0, string(begins)}, nil
}

// clock compares the clock with that of a server.
func (e *exam) clock(who string, h http.Header) {
	theirs, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return
	}
	// Certificates and cache lifetimes depend on the clock.
	if d := e.Now().Sub(theirs); d.Abs() > skew {
		e.find("clock", "it differs by %s from that of %s. Set it by NTP.", d.Abs().Round(time.Minute), who)
	}
}

func reason(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err.Error()
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err.Error()
}
