// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/version"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Prints the versions of llm_cache, Caddy and Go",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			simple, _ := caddy.Version()
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "llm_cache %s, Caddy %s, %s %s/%s\n",
				version.String(), simple, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
