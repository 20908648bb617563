// SPDX-License-Identifier: Apache-2.0

package main

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// What is left out of configurations of webhooks and of policies has these values in every cluster. No library sets them.

func prepareMutating(object runtime.Object) {
	configuration := object.(*admissionregistrationv1.MutatingWebhookConfiguration)
	for i := range configuration.Webhooks {
		w := &configuration.Webhooks[i]
		orElse(&w.ReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)
		prepareWebhook(&w.FailurePolicy, &w.MatchPolicy, &w.TimeoutSeconds)
		prepareSelection(&w.NamespaceSelector, &w.ObjectSelector, w.Rules)
	}
}

func prepareValidating(object runtime.Object) {
	configuration := object.(*admissionregistrationv1.ValidatingWebhookConfiguration)
	for i := range configuration.Webhooks {
		w := &configuration.Webhooks[i]
		prepareWebhook(&w.FailurePolicy, &w.MatchPolicy, &w.TimeoutSeconds)
		prepareSelection(&w.NamespaceSelector, &w.ObjectSelector, w.Rules)
	}
}

func prepareWebhook(failure **admissionregistrationv1.FailurePolicyType, match **admissionregistrationv1.MatchPolicyType, timeout **int32) {
	orElse(failure, admissionregistrationv1.Fail)
	orElse(match, admissionregistrationv1.Equivalent)
	orElse(timeout, 10)
}

func prepareSelection(namespaces, objects **metav1.LabelSelector, rules []admissionregistrationv1.RuleWithOperations) {
	orElse(namespaces, metav1.LabelSelector{})
	orElse(objects, metav1.LabelSelector{})
	for i := range rules {
		orElse(&rules[i].Scope, admissionregistrationv1.AllScopes)
	}
}

func preparePolicy(object runtime.Object) {
	spec := &object.(*admissionregistrationv1.ValidatingAdmissionPolicy).Spec
	orElse(&spec.FailurePolicy, admissionregistrationv1.Fail)
	prepareMatch(spec.MatchConstraints)
}

func preparePolicyBinding(object runtime.Object) {
	prepareMatch(object.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding).Spec.MatchResources)
}

func prepareMatch(match *admissionregistrationv1.MatchResources) {
	if match == nil {
		return
	}
	orElse(&match.MatchPolicy, admissionregistrationv1.Equivalent)
	orElse(&match.NamespaceSelector, metav1.LabelSelector{})
	orElse(&match.ObjectSelector, metav1.LabelSelector{})
	for _, rules := range [][]admissionregistrationv1.NamedRuleWithOperations{match.ResourceRules, match.ExcludeResourceRules} {
		for i := range rules {
			orElse(&rules[i].Scope, admissionregistrationv1.AllScopes)
		}
	}
}

func orElse[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
