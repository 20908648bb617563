module example.com/report-operator

go 1.15

require (
	github.com/modern-go/reflect2 v1.0.2 // indirect
	k8s.io/api v0.20.2
	k8s.io/apimachinery v0.20.2
	k8s.io/client-go v0.20.2
	k8s.io/klog/v2 v2.4.0
)
