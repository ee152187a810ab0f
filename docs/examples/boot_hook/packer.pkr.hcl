# Bakes an image with the build phase of the roles: packer build -var bundle=s3://... -var sha256=... packer.pkr.hcl
packer {
  required_plugins {
    amazon = {
      source  = "github.com/hashicorp/amazon"
      version = ">= 1.3.0"
    }
  }
}

variable "bundle" { type = string }
variable "sha256" { type = string }
variable "source_ami" { type = string }
variable "instance_profile" { type = string }
variable "ssh_username" {
  type    = string
  default = "ubuntu"
}

source "amazon-ebs" "node" {
  ami_name             = "mlcluster-${substr(var.sha256, 0, 12)}"
  source_ami           = var.source_ami
  instance_type        = "g5.2xlarge"
  ssh_username         = var.ssh_username
  iam_instance_profile = var.instance_profile
  imds_support         = "v2.0"
}

build {
  sources = ["source.amazon-ebs.node"]

  provisioner "file" {
    source      = "hooks/on_node_configured.sh"
    destination = "/tmp/on_node_configured.sh"
  }

  provisioner "shell" {
    inline = [
      "sudo bash /tmp/on_node_configured.sh --phase build --node-type compute --roles nvme_raid0,efa_nccl,enroot_pyxis --on-failure terminate --deadline 3000 --vars '{\"nvme_raid0_image_build\": true, \"efa_nccl_image_build\": true}' --bundle ${var.bundle} --sha256 ${var.sha256}",
    ]
  }
}
