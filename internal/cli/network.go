// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/version"
)

const skew = 5 * time.Minute

// upstream tries a site's upstream, without a credential.
func (e *exam) upstream(ctx context.Context, dial string, secure bool) {
	if e.Offline {
		return
	}
	e.look("the upstream %s", dial)
	url := "http://" + dial + "/"
	if secure {
		url = "https://" + dial + "/"
	}
	answer, err := e.get(ctx, url, nil) //nolint:bodyclose // get has closed it
	if err != nil {
		e.find("upstream", "%s does not answer: %s", dial, reason(err))
		return
	}
	e.clock(dial, answer.Header)
}

// base requests the list of models at a client's base URL, with the client's credential.
func (e *exam) base(ctx context.Context, about, url, models string, credential http.Header) {
	if e.Offline {
		return
	}
	e.look("%s, where %s goes", url, about)
	answer, err := e.get(ctx, strings.TrimSuffix(url, "/")+models, credential) //nolint:bodyclose // get has closed it
	if err != nil {
		var unknown x509.UnknownAuthorityError
		var invalid x509.CertificateInvalidError
		var name x509.HostnameError
		var other *tls.CertificateVerificationError
		switch {
		case errors.As(err, &unknown):
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
	switch {
	case answer.StatusCode >= 300 && answer.StatusCode < 400:
		e.find(about, "%s redirects to %s, and requests lose their bodies on the way. Use that address.", url,
			answer.Header.Get("Location"))
	case answer.StatusCode == http.StatusUnauthorized && len(credential) > 0:
		e.find(about, "%s refuses the key (401).", url)
	case answer.StatusCode >= 502 && answer.StatusCode <= 504:
		e.find(about, "%s answers %d: what stands behind it cannot be reached.", url, answer.StatusCode)
	}
	e.clock(url, answer.Header)
}

// resends asks a running Caddy, if any, for edits that upstreams refused.
func (e *exam) resends(ctx context.Context, admin string) {
	if e.Offline || strings.Contains(admin, "/") { // a socket
		return
	}
	url := "http://" + cmp.Or(admin, "localhost:2019") + "/metrics"
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return
	}
	answer, err := e.client.Do(r)
	if err != nil {
		return // no Caddy runs
	}
	defer answer.Body.Close()
	counts := map[string]float64{}
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), `caddy_llm_cache_resends_total{outcome="`); ok {
			outcome, value, _ := strings.Cut(rest, `"} `)
			counts[outcome], _ = strconv.ParseFloat(value, 64)
		}
	}
	if len(counts) == 0 {
		return
	}
	e.look("what upstreams have refused, at %s: %.0f requests were accepted without our edits, %.0f were refused again",
		url, counts["accepted"], counts["refused"])
	if n := counts["accepted"]; n > 0 {
		e.find("edits",
			"upstreams have refused %.0f requests with our edits and accepted them without. The page says which kinds of "+
				"edits under Edits: switch those off in the site (expand off, breakpoints off).", n)
	}
}

func (e *exam) get(ctx context.Context, url string, credential http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	maps.Copy(r.Header, credential)
	r.Header.Set("User-Agent", version.Agent())
	answer, err := e.client.Do(r)
	if err != nil {
		return nil, err
	}
	_ = answer.Body.Close()
	return answer, nil
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
