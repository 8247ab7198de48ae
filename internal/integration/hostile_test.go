// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
)

// hostileSites are the same for all: a site that edits what it may, one that puts
// every other format into Anthropic's, a box that is spoken to in chat completions, with
// all that is done to its prompts, and sites that put all into OpenAI's Responses and into
// Gemini's. The bare one is what they are measured against.
const hostileSites = `
handle_path /bare/* {
	reverse_proxy %[1]s
}
handle_path /native/* {
	llm_cache {
		policy eager
		zones {
			frozen 0
			hot 1
			min_messages 0
		}
	}
	reverse_proxy %[1]s
}
handle_path /hosted/* {
	llm_cache {
		upstream anthropic
	}
	reverse_proxy %[1]s
}
handle_path /box/* {
	llm_cache {
		upstream mlx_lm
	}
	reverse_proxy %[1]s
}
handle_path /responses/* {
	llm_cache {
		upstream openai {
			format openai_responses
		}
	}
	reverse_proxy %[1]s
}
handle_path /gemini/* {
	llm_cache {
		upstream gemini {
			format gemini
		}
	}
	reverse_proxy %[1]s
}
`

// sites are all but the bare one.
var sites = []string{"native", "hosted", "box", "responses", "gemini"}

// hostility is a Caddy with the sites, in front of an upstream that remembers nothing
// but the hash of what it got last.
type hostility struct {
	*proxy
	mu    sync.Mutex
	seed  maphash.Seed
	tries atomic.Int64
	got   uint64
	n     int64
}

func newHostility(t *testing.T) *hostility {
	h := &hostility{seed: maphash.MakeSeed()}
	u := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var sum maphash.Hash
		sum.SetSeed(h.seed)
		n, err := io.Copy(&sum, r.Body)
		if err != nil {
			return
		}
		h.mu.Lock()
		h.got, h.n = sum.Sum64(), n
		h.mu.Unlock()
		answer := message
		switch {
		case strings.HasSuffix(r.URL.Path, "/chat/completions"):
			answer = chatMessage
		case strings.HasSuffix(r.URL.Path, "/responses"):
			answer = completed
		case strings.HasSuffix(r.URL.Path, ":generateContent"):
			answer = `{"candidates":[{"content":{"role":"model","parts":[{"text":"Done."}]},"finishReason":"STOP"}],` +
				`"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":2,"totalTokenCount":12}}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(u.Close)
	h.proxy = start(t, fmt.Sprintf(hostileSites, u.Listener.Addr()))
	h.client = &http.Client{Transport: asksAll{&http.Transport{DisableCompression: true}}}
	t.Cleanup(h.client.CloseIdleConnections)
	return h
}

// try sends a body and judges what came of it: upstream got it as it was, or, where it
// had to be put into other words, the client an answer or an error of its format.
func (h *hostility) try(t *testing.T, site string, d *dialect, name, body, coding string) {
	t.Helper()
	h.mu.Lock()
	h.n = -1
	h.mu.Unlock()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+h.addr+"/"+site+d.path,
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Api-Key", strconv.FormatInt(h.tries.Add(1), 10)) // what is known from before would cost little
	if coding != "" {
		req.Header.Set("Content-Encoding", coding)
	}
	res, err := h.client.Do(req)
	if err != nil {
		t.Errorf("%s in %s, %s: %v", name, d.name, site, err)
		return
	}
	answer, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || !json.Valid(answer) {
		t.Errorf("%s in %s, %s: %v, answered by %.200s", name, d.name, site, err, answer)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	as := h.n == int64(len(body)) && h.got == maphash.String(h.seed, body)
	switch {
	case res.StatusCode == http.StatusOK &&
		(as || site == "box" || site != "native" && site != d.native && site != "bare"):
	case res.StatusCode == http.StatusOK && res.Header.Get("X-Llm-Cache-Transforms") != "none" &&
		res.Header.Get("X-Llm-Cache-Transforms") != "":
	case res.StatusCode == http.StatusOK && site == "hosted" && strings.HasPrefix(name, "y_object_") &&
		strings.HasSuffix(name, " as schema"): // an object without a type, which the provider would refuse
	case res.StatusCode == http.StatusBadRequest && h.n < 0 && bytes.Contains(answer, []byte(`"error"`)) &&
		site != "native" && site != d.native && site != "bare":
	default:
		t.Errorf("%s in %s, %s: status %d, upstream got %d bytes (as they were: %t) of %d; %.200s", name, d.name, site,
			res.StatusCode, h.n, as, len(body), answer)
	}
}

// TestJSONTestSuite sends every case of the suite as a body and as each of its parts.
func TestJSONTestSuite(t *testing.T) {
	cases, err := testkit.JSONCases()
	if err != nil {
		t.Fatal(err)
	}
	h := newHostility(t)
	for i, c := range cases {
		if testing.Short() && i%8 > 0 {
			continue
		}
		for j := range dialects {
			d := &dialects[j]
			inner := quoted(strings.ToValidUTF8(c.Text, "?"))
			bodies := map[string]string{
				"whole": c.Text, "content": d.say("CONTENT", c.Text), "schema": d.say("SCHEMA", c.Text),
				"result":             d.say("RESULT", c.Text),
				"text of a result":   d.say("RESULT", inner),
				"output in a result": d.say("RESULT", quoted(`{"output":`+strings.ToValidUTF8(c.Text, "?")+`,"metadata":{}}`)),
				"input":              d.say("INPUT", c.Text),
			}
			if d.text {
				bodies["text of an input"] = d.say("INPUT", inner)
			}
			for place, body := range bodies {
				// The sites take turns.
				site := sites[(i+j+len(place))%len(sites)]
				h.try(t, site, d, c.Name+" as "+place, body, "")
			}
		}
	}
}

// TestNamesInHeaders: a client's names for members, which are listed in a header where they
// cannot be carried, break no line of it.
func TestNamesInHeaders(t *testing.T) {
	h := newHostility(t)
	const evil = `"a\r\nX-Evil: yes\r\n\r\n\u0000\u0085é":1`
	for i := range dialects {
		d := &dialects[i]
		body := d.say("CONTENT", `"hi"`)
		body = "{" + evil + "," + strings.NewReplacer(`{"role":"user",`, `{"role":"user",`+evil+`,`, `{"name":"Read",`,
			`{"name":"Read",`+evil+`,`).Replace(body[1:])
		for _, site := range sites {
			res := h.post("/"+site+d.path, body, "X-Session-Id", "a\tb", "User-Agent", "x\ty")
			answer := read(t, res)
			if res.StatusCode != http.StatusOK || res.Header.Get("X-Evil") != "" || strings.Contains(answer, "X-Evil") {
				t.Errorf("%s, %s: status %d, %v, %s", d.name, site, res.StatusCode, res.Header, answer)
			}
			for name, values := range res.Header {
				if v := strings.Join(values, ""); strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r > '~' }) {
					t.Errorf("%s, %s: %s is %q", d.name, site, name, v)
				}
			}
			dropped := res.Header.Get("X-Llm-Cache-Dropped")
			if translated := site != "native" && site != d.native; translated && !strings.Contains(dropped, "a??X-Evil??yes") {
				t.Errorf("%s, %s: dropped %q", d.name, site, dropped)
			}
		}
	}
	var text string
	h.adminDo(http.MethodGet, "/metrics", &text)
	if strings.Contains(text, "Evil") {
		t.Error("a client's name is a label of a metric")
	}
}
