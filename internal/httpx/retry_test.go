// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package httpx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// script is a Retrier whose attempts have scripted responses. A verdict is "accept", "reject" or
// "wait" for each call of Judge.
type script struct {
	attempts []func(w http.ResponseWriter) error
	verdicts []string

	bodies []string // of the requests
	judged []string // what Judge saw
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	s.bodies = append(s.bodies, r.Header.Get("X-Edit")+string(body))
	r.Header.Set("X-Edit", "changed by a later handler ")
	return s.attempts[len(s.bodies)-1](w)
}

func (s *script) Judge(a *Attempt) Verdict {
	saw := string(a.Body)
	if len(saw) > 10 {
		saw = saw[:10] + "…"
	}
	if a.Err != nil {
		saw += " " + a.Err.Error()
	}
	s.judged = append(s.judged, saw)
	v := "accept"
	if len(s.judged) <= len(s.verdicts) {
		v = s.verdicts[len(s.judged)-1]
	}
	return map[string]Verdict{"wait": Wait, "accept": Accept, "reject": Reject}[v]
}

// says is an attempt with a response of that status and body.
func says(status int, body string) func(http.ResponseWriter) error {
	return func(w http.ResponseWriter) error {
		w.Header().Set("X-Of-"+http.StatusText(status)[:2], "yes")
		w.WriteHeader(status)
		for part := range strings.SplitAfterSeq(body, "|") {
			if _, err := io.WriteString(w, part); err != nil {
				return err
			}
		}
		return http.NewResponseController(w).Flush()
	}
}

// then is an attempt that goes on after its response.
func then(first func(http.ResponseWriter) error, next func() error) func(http.ResponseWriter) error {
	return func(w http.ResponseWriter) error {
		if err := first(w); err != nil {
			return err
		}
		return next()
	}
}

func TestRetry(t *testing.T) {
	failed := errors.New("failed")
	fails := func(w http.ResponseWriter) error {
		w.Header().Set("X-Of-None", "yes")
		return failed
	}
	cuts := func() error { panic(http.ErrAbortHandler) }
	long := strings.Repeat("x", MaxError) + "|more"
	type attempts = []func(http.ResponseWriter) error
	for _, c := range []struct {
		name     string
		attempts attempts
		verdicts string
		want     string // the client's status, body and header, "!" for a cut response
		judged   string
		err      error
	}{
		{"accepted by its header", attempts{says(200, "a|b")}, "", "200 a|b X-Of-Ok", "", nil},
		{"accepted by its body", attempts{says(400, "a|b")}, "wait", "400 a|b X-Of-Ba", "/a|b", nil},
		{"wait without an end", attempts{says(400, "a")}, "wait wait", "400 a X-Of-Ba", "/a", nil},
		{"accepted without a body", attempts{says(400, "")}, "wait", "400  X-Of-Ba", "/", nil},
		{"rejected by its header", attempts{says(400, "a|b"), says(200, "c")}, "reject", "200 c X-Of-Ok", "/", nil},
		{"rejected by its body", attempts{says(400, "a|b"), says(200, "c")}, "wait reject", "200 c X-Of-Ok", "/a|b/", nil},
		{
			"rejected twice",
			attempts{says(400, "a"), says(404, "b"), says(200, "c")},
			"wait reject reject", "200 c X-Of-Ok",
			"/a//", nil,
		},
		{"too long, accepted", attempts{says(400, long)}, "wait", "400 " + long + " X-Of-Ba", "/xxxxxxxxxx…", nil},
		{
			"too long, rejected",
			attempts{says(400, long), says(200, "c")},
			"wait reject", "200 c X-Of-Ok", "/xxxxxxxxxx…/",
			nil,
		},
		{"no response", attempts{func(http.ResponseWriter) error { return nil }}, "", "", "", nil},
		{"an error", attempts{fails}, "", "X-Of-None", " failed", failed},
		{"an error, rejected", attempts{fails, says(200, "c")}, "reject", "200 c X-Of-Ok", " failed/", nil},
		{
			"an error instead of the rest",
			attempts{then(says(400, "a"), func() error { return failed })},
			"wait", "",
			"/a failed", failed,
		},
		{"an error behind", attempts{then(says(200, "a"), func() error { return failed })}, "", "200 a X-Of-Ok", "", failed},
		{
			"an error behind, rejected",
			attempts{then(says(400, "a"), func() error { return failed }), says(200, "c")},
			"reject", "200 c X-Of-Ok", "/", nil,
		},
		{"cut", attempts{then(says(200, "a"), cuts)}, "", "!200 a X-Of-Ok", "", nil},
		{
			"cut while it waits",
			attempts{then(says(400, "a"), cuts)},
			"wait", "!400 a X-Of-Ba", "/a net/http: abort Handler",
			nil,
		},
		{
			"cut while it waits, rejected",
			attempts{then(says(400, "a"), cuts), says(200, "c")},
			"wait reject", "200 c X-Of-Ok",
			"/a net/http: abort Handler/", nil,
		},
		{"rejected and cut", attempts{then(says(400, "a"), cuts), says(200, "c")}, "reject", "200 c X-Of-Ok", "/", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &script{attempts: c.attempts, verdicts: strings.Fields(c.verdicts)}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
			SetBody(r, []byte("body"))
			got, err := retried(r, s)
			if got != c.want || !errors.Is(err, c.err) {
				t.Errorf("client got %.40q, %v, want %.40q, %v", got, err, c.want, c.err)
			}
			if judged := strings.Join(s.judged, "/"); judged != c.judged {
				t.Errorf("judged by %q, want %q", judged, c.judged)
			}
			for _, body := range s.bodies {
				if body != "body" {
					t.Errorf("an attempt had %q", body)
				}
			}
			if len(s.bodies) != len(c.attempts) {
				t.Errorf("%d attempts, want %d", len(s.bodies), len(c.attempts))
			}
		})
	}
}

// retried returns what a client gets: status, body, and the names of the scripted header fields.
func retried(r *http.Request, s *script) (got string, err error) {
	w := httptest.NewRecorder()
	w.Code = 0
	defer func() {
		cut := ""
		if p := recover(); p == http.ErrAbortHandler { //nolint:errorlint,err113 // the very value
			cut = "!"
		} else if p != nil {
			panic(p)
		}
		if w.Code != 0 {
			got = fmt.Sprintf("%s%d %s ", cut, w.Code, w.Body)
		}
		for name := range w.Header() {
			if strings.HasPrefix(name, "X-Of") {
				got += name
			}
		}
	}()
	return "", Retry(w, r, s)
}

// TestRetryWithoutClient: no attempt follows once the client has left.
func TestRetryWithoutClient(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	s := &script{attempts: []func(http.ResponseWriter) error{func(http.ResponseWriter) error {
		leave()
		return ctx.Err()
	}}, verdicts: []string{"reject"}}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader("body"))
	if _, err := retried(r, s); !errors.Is(err, context.Canceled) || len(s.bodies) != 1 {
		t.Errorf("%d attempts, %v", len(s.bodies), err)
	}
}

// TestRetryPanic: a panic of the next handlers passes, and is no reason for another attempt.
func TestRetryPanic(t *testing.T) {
	s := &script{
		attempts: []func(http.ResponseWriter) error{func(http.ResponseWriter) error { panic("broken") }},
		verdicts: []string{"reject"},
	}
	defer func() {
		if p := recover(); p != "broken" || len(s.judged) != 0 {
			t.Errorf("panic is %v, judged %d times", p, len(s.judged))
		}
	}()
	_ = Retry(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil), s)
}
