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
	"context"
	"errors"
	"net/http"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/layer"
	"github.com/caddy-llm-cache/caddy-llm-cache/translate"
)

// unreached answers, as the client's own API would, that there was no answer: Caddy
// itself says so by a status without a body, which clients show as it is. Where the
// server has error routes, they are to answer, and the error goes on to them. w has
// not been written to.
func (c *requestState) unreached(ctx context.Context, w http.ResponseWriter, err error) error {
	e, ok := errors.AsType[caddyhttp.HandlerError](err)
	if !ok || layer.Unreached[e.StatusCode] == "" || ctx.Err() != nil {
		return err
	}
	srv, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || srv == nil || srv.Errors != nil && len(srv.Errors.Routes) > 0 {
		return err
	}
	c.site.up.Log.Error("no answer from upstream", zap.Int("status", e.StatusCode), zap.Error(e.Err))
	return layer.Fail(w, c.view.Format, &translate.Failure{Status: e.StatusCode, Message: layer.Unreached[e.StatusCode]})
}
