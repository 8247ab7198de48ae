// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package handler

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/caddy-llm-cache/caddy-llm-cache/handler/kept"
	"github.com/caddy-llm-cache/caddy-llm-cache/layer"
	"github.com/caddy-llm-cache/caddy-llm-cache/layer/budget"
	"github.com/caddy-llm-cache/caddy-llm-cache/translate"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// countsItself reports whether a request asks for the length of a prompt in the
// format of an API that the upstream does not have, and in which format.
func (o *site) countsItself(r *http.Request) (f wire.Format, ok bool) {
	f, ok = wire.DetectCount(r.Method, r.URL.Path)
	return f, ok && o.up.Target(f) != f && o.up.Counts() != f
}

// serveCount answers with our own estimate, and says so in a header. What the
// upstream could not be asked is refused as the request itself would be.
func (o *site) serveCount(w http.ResponseWriter, r *http.Request, f wire.Format) error {
	a := o.arrival(r, f)
	defer a.share.Close()
	switch err := a.receive(w, r); {
	case errors.Is(err, layer.ErrNoRoom):
		return budget.Fail(w, f)
	case errors.Is(err, budget.ErrStalled):
		return budget.FailStalled(w, f)
	case err != nil:
		return failBody(w, r, f, err)
	case a.Undone() != nil:
		return layer.Fail(w, f, translate.Refusal(a.Undone()))
	}
	n, err := 0, errors.New("the tokens could not be counted")
	o.guard("counting tokens", func() { n, err = kept.Tokens(f, a.body()) })
	if err != nil {
		return layer.Fail(w, f, translate.Refusal(err))
	}
	body := f.Codec().(wire.TokenCounter).CountAnswer(n) //nolint:forcetypeassert // else nobody would have asked
	header := w.Header()
	header["Content-Type"], header["Content-Length"] = []string{"application/json"}, []string{strconv.Itoa(len(body))}
	if o.up.Headers {
		header[headerGuess] = []string{"1"}
	}
	_, err = w.Write(body)
	return err
}
