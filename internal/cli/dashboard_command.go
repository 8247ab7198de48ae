// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

// Dashboard serves the live page of a running Caddy to a browser. Caddy's admin endpoint rejects
// browsers that send no Origin.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/page"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/subcommand"
)

// folder is the path of the page on the admin endpoint.
const folder = "/llm_cache/"

// DashboardCommand returns the subcommand `dashboard` of `caddy llm-cache`.
func DashboardCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dashboard [--admin <address>] [--listen <address>]",
		Short: "Serves the live page of a running Caddy to a browser on this machine",
		Long: `
Serves the live page that lies on the admin endpoint of a running Caddy at
/llm_cache/, until it is interrupted. Caddy's admin endpoint takes no requests of
browsers that come from nowhere; this passes those on that only look at the page, and
nothing else of the endpoint. It listens on this machine alone.

For a team there is the directive llm_cache_dashboard, behind the site's own
authentication.
`,
		Example: "  caddy llm-cache dashboard",
		Args:    cobra.NoArgs,
		RunE: subcommand.Run(func(cmd *cobra.Command, f caddycmd.Flags) error {
			return serve(cmd, f.String("admin"), f.String("listen"))
		}),
	}
	cmd.Flags().String("admin", caddy.DefaultAdminListen, "Address of the admin API")
	cmd.Flags().String("listen", "127.0.0.1:2020", "Where to serve the page: an address of this machine's own")
	return cmd
}

func serve(cmd *cobra.Command, admin, listen string) error {
	h, err := Handler(admin)
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(listen)
	if err != nil || !loopback(host) {
		return fmt.Errorf("listen: %q is not an address of this machine's own, such as 127.0.0.1:2020", listen)
	}
	l, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "The page is at http://%s/\n", l.Addr())
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(cmd.Context(), func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Handler proxies the page of an admin endpoint, for loopback hosts only.
func Handler(admin string) (http.Handler, error) {
	to, err := url.Parse("http://" + strings.TrimPrefix(admin, "http://"))
	if err != nil || to.Host == "" {
		return nil, fmt.Errorf("admin: %q is no address", admin)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			_, name := path.Split(r.In.URL.Path)
			r.Out.URL.Path, r.Out.URL.RawPath, r.Out.URL.RawQuery = folder+name, "", r.In.URL.RawQuery
			r.Out.Host = to.Host
			r.Out.Header = http.Header{"Accept": r.In.Header["Accept"]}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			http.Error(w, "no Caddy answers at "+to.Host, http.StatusBadGateway)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		_, name := path.Split(r.URL.Path)
		switch {
		// The check of the Host header blocks other web sites that rebind their names to this machine.
		case !loopback(host):
			http.Error(w, "asked for by a foreign name", http.StatusForbidden)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			http.Error(w, "it can only be looked at", http.StatusMethodNotAllowed)
		// Other paths belong to the endpoint, not to the page.
		case !page.Serves(name):
			http.NotFound(w, r)
		default:
			proxy.ServeHTTP(w, r)
		}
	}), nil
}

func loopback(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
