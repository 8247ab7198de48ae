// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

// Smoketest sends a model a few short questions through a site and checks the essentials: system
// prompts, conversations, streams, sessions, deltas.

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/version"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	_ "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/formats" // all of them
)

// SmoketestOptions are the target of a smoke test.
type SmoketestOptions struct {
	// URL is the base URL of the site.
	URL string
	// Model, Format and Key are those that a client would use.
	Model  string
	Format wire.Format
	Key    string
	// Client sends the requests. Default: a client with a timeout of five minutes.
	Client *http.Client
}

// smoketestPatience bounds a response: a local server reads its first prompt slowly.
const smoketestPatience = 5 * time.Minute

// SmoketestLine is the result of one question.
type SmoketestLine struct {
	// Name describes the test.
	Name string `json:"name"`
	// Status is the status of the response, 0 without one. MS is its duration in milliseconds.
	Status int   `json:"status"`
	MS     int64 `json:"ms"`
	// Cached is the number of tokens read from the provider's cache, -1 if it is not reported.
	Cached int64 `json:"cached"`
	// Bytes is the size of the request. Sent is the size sent upstream, if the site says that the
	// upstream retains conversations, else 0.
	Bytes int `json:"bytes"`
	Sent  int `json:"sent,omitempty"`
	// Faults are the faults found.
	Faults []string `json:"faults,omitempty"`
}

func (l *SmoketestLine) fault(format string, args ...any) {
	// The text may quote a response, which must not steer a terminal.
	l.Faults = append(l.Faults, strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, fmt.Sprintf(format, args...)))
}

type answer struct {
	text              string
	session, retained string // from the headers of the site
}

// Run asks all questions, one after the other.
func (o *SmoketestOptions) Run(ctx context.Context) ([]*SmoketestLine, error) {
	if o.Client == nil {
		o.Client = &http.Client{Timeout: smoketestPatience}
	}
	if _, _, err := o.request(new(prompt)); err != nil {
		return nil, err
	}
	if o.URL == "" || o.Model == "" {
		return nil, fmt.Errorf("the base URL and the model are needed")
	}
	nonce := rand.Text()[:8] // keeps runs from continuing each other's conversations
	system := func(word string) string {
		return "You are taking part in a test of the line, number " + nonce +
			". Whatever you are asked, your whole answer is the one word " + word +
			", in capitals." + strings.Repeat(" Nothing else matters; do not explain yourself.", 20)
	}
	ask := said{text: "Hello. What is your word?"}
	var lines []*SmoketestLine
	try := func(name string, p *prompt, check func(l *SmoketestLine, a *answer)) (a *answer) {
		l := &SmoketestLine{Name: name, Cached: -1}
		lines = append(lines, l)
		if a = o.ask(ctx, l, p); a != nil && check != nil {
			check(l, a)
		}
		return a
	}
	honours := func(word string) func(*SmoketestLine, *answer) {
		return func(l *SmoketestLine, a *answer) {
			if !strings.Contains(strings.ToUpper(a.text), word) {
				l.fault("the system prompt was not honoured: no %s in %q", word, cut(a.text))
			}
		}
	}

	first := try("system and user", &prompt{system: system("MAPLE"), said: []said{ask}}, honours("MAPLE"))
	if first != nil {
		more := []said{ask, {true, first.text}, {text: "And once more?"}}
		try("the conversation goes on", &prompt{system: system("MAPLE"), said: more}, func(l *SmoketestLine, a *answer) {
			honours("MAPLE")(l, a)
			o.continues(l, a, first)
		})
		try("stream", &prompt{system: system("MAPLE"), said: more, stream: true}, func(l *SmoketestLine, a *answer) {
			honours("MAPLE")(l, a)
			o.continues(l, a, first)
		})
	}
	try("user only", &prompt{said: []said{{text: "Say hello. " + nonce}}}, nil)
	try("changed system", &prompt{system: system("WILLOW"), said: []said{ask}}, func(l *SmoketestLine, a *answer) {
		honours("WILLOW")(l, a)
		if strings.Contains(strings.ToUpper(a.text), "MAPLE") {
			l.fault("the answer is one to the other system prompt")
		}
	})
	return lines, nil
}

// continues checks that a response belongs to the conversation of the first.
func (*SmoketestOptions) continues(l *SmoketestLine, a, first *answer) {
	if a.session != first.session {
		l.fault("session %s, the first was of %s", a.session, first.session)
	}
	if first.retained != "" && !strings.HasPrefix(a.retained, "delta") {
		l.fault("the upstream holds the conversation, and was sent all of it: %s", a.retained)
	}
}

func (o *SmoketestOptions) ask(ctx context.Context, l *SmoketestLine, p *prompt) *answer {
	url, body, err := o.request(p)
	if err != nil {
		l.fault("%v", err)
		return nil
	}
	l.Bytes = len(body)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		l.fault("%v", err)
		return nil
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", version.Agent())
	if o.Key != "" {
		speeches[o.Format].key(req.Header, o.Key)
	}
	req.Header.Set("X-Llm-Cache-Headers", "full")
	began := time.Now()
	res, err := o.Client.Do(req)
	if err != nil {
		l.fault("%v", err)
		return nil
	}
	defer res.Body.Close()
	l.Status = res.StatusCode
	d := wire.NewDecoder(o.Format, p.stream)
	raw, err := io.ReadAll(res.Body)
	l.MS = time.Since(began).Milliseconds()
	if err != nil {
		l.fault("the answer broke off: %v", err)
		return nil
	}
	d.Feed(append(raw, "\n\n"...)) // the blank line may be missing, unlike the terminal event
	turn := d.Turn()
	switch {
	case res.StatusCode != http.StatusOK:
		l.fault("%s", cut(string(raw)))
		return nil
	case turn == nil || turn.Failed():
		l.fault("no answer: %s", cut(string(raw)))
		return nil
	case p.stream && !httpx.IsStream(httpx.MediaType(res.Header.Get("Content-Type"))):
		l.fault("no stream, but %s", res.Header.Get("Content-Type"))
	case p.stream && !(d.Done() && o.last(raw)):
		l.fault("the stream does not end in its terminal event: …%s", cut(string(raw[max(0, len(raw)-120):])))
	case turn.Text == "":
		l.fault("no text in the answer: %s", cut(string(raw)))
	}
	if turn.Usage.Reported {
		l.Cached = turn.Usage.Read
	}
	a := &answer{
		text: turn.Text, session: res.Header.Get("X-Llm-Cache-Session"),
		retained: res.Header.Get("X-Llm-Cache-Retained"),
	}
	if a.retained != "" {
		l.Sent = l.Bytes
		_, _ = fmt.Sscanf(a.retained, "delta; sent=%d;", &l.Sent)
	}
	return a
}

// last reports whether the terminal event is the last of a stream.
func (o *SmoketestOptions) last(raw []byte) bool {
	end := bytes.LastIndex(bytes.TrimSpace(raw), []byte("\n\n"))
	if end < 0 {
		return true
	}
	before := wire.NewDecoder(o.Format, true)
	before.Feed(raw[:end+2])
	return !before.Ended()
}

func cut(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 160 {
		s = string(r[:160]) + "…"
	}
	return s
}

// SmoketestFaults counts the lines with faults.
func SmoketestFaults(lines []*SmoketestLine) (n int) {
	for _, l := range lines {
		if len(l.Faults) > 0 {
			n++
		}
	}
	return n
}

// WriteSmoketest writes lines as a table.
func WriteSmoketest(w io.Writer, lines []*SmoketestLine) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tstatus\tms\tcached tokens\tbytes\tsent\t")
	for _, l := range lines {
		mark, cached, sent := "✓", "–", "–"
		if len(l.Faults) > 0 {
			mark = "✗"
		}
		if l.Cached >= 0 {
			cached = fmt.Sprint(l.Cached)
		}
		if l.Sent > 0 {
			sent = fmt.Sprint(l.Sent)
		}
		fmt.Fprintf(t, "%s %s\t%d\t%d\t%s\t%d\t%s\t%s\n", mark, l.Name, l.Status, l.MS, cached, l.Bytes, sent,
			strings.Join(l.Faults, "; "))
	}
	return t.Flush()
}
